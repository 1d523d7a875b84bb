"""Qwen3.5, dense, its text part too: Qwen3-Next's names; heads of V that share a K are not side by side in GGUF."""

import numpy as np

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import qwen2vl, qwen3next

ARCH = "qwen35"
CLASSES = ("Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration")


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    qwen3next.numbers(w)
    qwen2vl.sections(w)
    usual.head(w)
    for _ in w.layers(usual.layers(w)):
        mixer(w)
        w.copy(usual.MLP)


def mixer(w: Writer) -> None:
    """All of a layer but its feed-forward."""
    w.copy(qwen3next.NORMS, usual.one_more)
    w.copy(usual.ATTENTION)
    if w.has("linear_attn.A_log"):
        delta_net(w)


def delta_net(w: Writer) -> None:
    groups, heads = w.config.integer("linear_num_key_heads"), w.config.integer("linear_num_value_heads")
    keys = 2 * groups * w.config.integer("linear_key_head_dim")

    def apart(x: np.ndarray) -> np.ndarray:
        """A view of x, whose rows are heads of V, with the first of each group first."""
        return x.reshape(groups, heads // groups, len(x) // heads, *x.shape[1:]).swapaxes(0, 1)

    qkv, conv = w.take("linear_attn.in_proj_qkv.weight"), w.take("linear_attn.conv1d.weight")
    w.put("attn_qkv.weight", qkv[:keys], apart(qkv[keys:]), shape=qkv.shape)
    w.put("ssm_conv1d.weight", conv[:keys], apart(conv[keys:]), shape=(conv.shape[0], conv.shape[-1]))
    for name, source in {"attn_gate": "z", "ssm_beta": "b", "ssm_alpha": "a"}.items():
        x = w.take(f"linear_attn.in_proj_{source}.weight")
        w.put(f"{name}.weight", apart(x), shape=x.shape)
    w.put("ssm_a", apart(w.take("linear_attn.A_log")), shape=(heads,), change=usual.decay)
    w.put("ssm_dt.bias", apart(w.take("linear_attn.dt_bias")), shape=(heads,))
    w.copy({"ssm_norm": "linear_attn.norm"})
    out = w.take("linear_attn.out_proj.weight")
    by_head = out.reshape(len(out), groups, heads // groups, out.shape[1] // heads)
    w.put("ssm_out.weight", by_head.swapaxes(1, 2), shape=out.shape)
