"""Llama 4, text: the experts' matrices are transposed, gate and up in one; RoPE turns adjacent pairs as GGUF's does."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.llama4 import CHUNK, GROWTH, PERIOD

ARCH = "llama4"
CLASSES = ("Llama4ForCausalLM", "Llama4ForConditionalGeneration")
LAYER = {
    **usual.NORMS,
    **usual.ATTENTION,
    "ffn_gate_inp": "feed_forward.router",
    **{name: source.replace("mlp", "feed_forward") for name, source in usual.MLP.items()},
    **{f"{name}_shexp": f"feed_forward.shared_expert.{name[4:]}_proj" for name in usual.MLP},
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    check(w)
    usual.begin(w)
    usual.expert_keys(w)
    w.key("expert_feed_forward_length", w.config.integer("intermediate_size"))
    w.key("feed_forward_length", w.config.integer("intermediate_size_mlp"))
    w.key("interleave_moe_layer_step", w.config.integer("interleave_moe_layer_step", default=1))
    for _ in w.layers(usual.layers(w)):
        w.copy(LAYER)
        if w.has("feed_forward.router.weight"):
            both = w.take("feed_forward.experts.gate_up_proj").swapaxes(1, 2)
            w.put("ffn_gate_exps.weight", both[:, : both.shape[1] // 2])
            w.put("ffn_up_exps.weight", both[:, both.shape[1] // 2 :])
            w.put("ffn_down_exps.weight", w.take("feed_forward.experts.down_proj").swapaxes(1, 2))


def check(w: Writer) -> None:
    """What GGUF has no keys for must be as in the models that were published."""
    turned = [int((layer + 1) % PERIOD != 0) for layer in range(usual.layers(w))]
    stated = {
        "attention_chunk_size": CHUNK,
        "floor_scale": CHUNK,
        "attn_scale": GROWTH,
        "attn_temperature_tuning": True,
        "no_rope_layers": turned,
    }
    for name, value in stated.items():
        usual.expect(w, name, value, [])
