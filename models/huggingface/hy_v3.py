"""Hunyuan 3: names of its own for what experts need; GGUF has the bias for the choice without an ending."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "hy_v3"
CLASSES = ("HYV3ForCausalLM",)
SPARSE = {
    "ffn_gate_inp": "mlp.router.gate",
    **{f"{name}_shexp": f"mlp.shared_mlp.{name.removeprefix('ffn_')}_proj" for name in usual.MLP},
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w)
    count = usual.routed(w)
    w.key("expert_weights_norm", True)
    w.key("expert_weights_scale", w.config.number("router_scaling_factor"))
    for _ in w.layers(usual.layers(w)):
        w.copy({**usual.NORMS, **usual.ATTENTION})
        if w.has("mlp.router.gate.weight"):
            w.copy(SPARSE)
            w.put("exp_probs_b", w.take("mlp.expert_bias"))
            usual.experts(w, count)
        else:
            w.copy(usual.MLP)
