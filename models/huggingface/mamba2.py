"""Mamba 2: one decay and one step for each head."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import mamba

ARCH = "mamba2"
CLASSES = ("Mamba2ForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    mamba.sizes(w)
    inner = w.config.integer("expand", default=2) * usual.dim(w)
    heads, groups = w.config.integer("num_heads"), w.config.integer("n_groups")
    keys(w, inner, w.config.integer("state_size"), heads, groups, w.config.integer("conv_kernel"))
    usual.head(w, mamba.MODEL)
    for _ in w.layers(usual.layers(w), "backbone.layers"):
        w.copy({"attn_norm": "norm"})
        mixer(w, "mixer")


def keys(w: Writer, inner: int, state: int, heads: int, groups: int, kernel: int) -> None:
    mamba.keys(w, inner, state, heads, kernel)
    w.key("ssm.group_count", groups)


def mixer(w: Writer, source: str) -> None:
    """Also that of hybrids."""
    conv = w.take(f"{source}.conv1d.weight")
    w.put("ssm_conv1d.weight", conv.reshape(conv.shape[0], conv.shape[-1]))
    w.copy({"ssm_in": f"{source}.in_proj", "ssm_out": f"{source}.out_proj", "ssm_conv1d": f"{source}.conv1d"})
    heads = w.take(f"{source}.A_log").size
    w.put("ssm_a", w.take(f"{source}.A_log").reshape(heads, 1), change=usual.decay)
    w.put("ssm_d", w.take(f"{source}.D").reshape(heads, 1))
    w.put("ssm_dt.bias", w.take(f"{source}.dt_bias"))
    if w.has(f"{source}.norm.weight"):
        norm, groups = w.take(f"{source}.norm.weight"), int(str(w.pairs[f"{w.arch}.ssm.group_count"]))
        w.put("ssm_norm.weight", norm.reshape(groups, norm.size // groups))
