"""Hunyuan A13B: Hunyuan's names, experts and a shared one by names of their own."""

from edgeinfer.errors import FormatError
from edgeinfer.formats.cursor import shown
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import hunyuan_dense

ARCH = "hunyuan-moe"
CLASSES = ("HunYuanMoEV1ForCausalLM",)
SHARED = {f"{name}_shexp": f"mlp.shared_mlp.{name[4:]}_proj" for name in usual.MLP}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w)
    hunyuan_dense.raise_base(w)
    count = w.config.integer("num_experts", "num_local_experts")
    w.key("expert_count", count)
    w.key("expert_used_count", one(w, "moe_topk"))
    w.key("expert_feed_forward_length", one(w, "moe_intermediate_size", "intermediate_size"))
    w.key("expert_shared_count", one(w, "num_shared_expert", default=1))
    for _ in w.layers(usual.layers(w)):
        w.copy({**hunyuan_dense.LAYER, **SHARED, "ffn_gate_inp": "mlp.gate.wg"})
        usual.experts(w, count)


def one(w: Writer, *names: str, default: int = 0) -> int:
    """A number that may be given for each layer, where they are all the same."""
    value = w.config.get(*names, default=default)
    listed = value if isinstance(value, list) else [value]
    if not listed or not all(type(number) is int for number in listed):
        raise FormatError(f"{w.config.where}: {names[0]} is {shown(str(value))}, an integer wanted")
    return int(max(listed))
