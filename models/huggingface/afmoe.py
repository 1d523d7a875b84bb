"""AFMoE (Trinity): a gate behind attention, norms before and after each branch, names of its own for the router."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "afmoe"
CLASSES = ("AfmoeForCausalLM",)
LAYER = {
    **usual.ATTENTION,
    "attn_gate": "self_attn.gate_proj",
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_mlp_layernorm",
    "post_ffw_norm": "post_mlp_layernorm",
    "ffn_gate_inp": "mlp.router.gate",
}
SHARED = {f"{name}_shexp": f"mlp.shared_experts.{name[4:]}_proj" for name in usual.MLP}
PERIOD = 4


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    if not w.config.flag("mup_enabled", default=False):
        raise UnsupportedError(f"{w.config.where}: mup_enabled is false; {w.arch} scales the embedding")
    usual.begin(w)
    w.key("attention.sliding_window", w.config.integer("sliding_window"))
    w.key("attention.sliding_window_pattern", usual.windows(w, PERIOD))
    count = usual.expert_keys(w)
    w.key("expert_gating_func", 2)  # sigmoid
    w.key("expert_weights_norm", w.config.flag("route_norm", default=True))
    w.key("expert_weights_scale", w.config.number("route_scale", default=1.0))
    w.key("leading_dense_block_count", w.config.integer("num_dense_layers", default=0))
    for _ in w.layers(usual.layers(w)):
        w.copy({**LAYER, **SHARED, **usual.MLP})
        if w.has("mlp.router.gate.weight"):
            usual.experts(w, count)
            w.put("exp_probs_b.bias", w.take("mlp.expert_bias"))
