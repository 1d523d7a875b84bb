"""Hunyuan, dense: the usual names, but for the norms of Q and K; RoPE's base may be raised for a longer context."""

from edgeinfer.errors import FormatError
from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "hunyuan-dense"
CLASSES = ("HunYuanDenseV1ForCausalLM",)
LAYER = {
    **usual.LAYER,
    "attn_q_norm": "self_attn.query_layernorm",
    "attn_k_norm": "self_attn.key_layernorm",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w, LAYER)
    raise_base(w)


def raise_base(w: Writer) -> None:
    """Also that of the models with experts."""
    found = rope.parameters(w.config)
    if found.text("rope_type", default="default") in ("dynamic", "xdrope") and found.has("alpha"):
        dim, base = usual.head_dim(w), found.number("rope_theta", default=10_000.0)
        alpha = found.number("alpha")
        if alpha <= 0:
            raise FormatError(f"{found.where}: alpha is {alpha:g}, by which no base can be raised")
        w.key("rope.freq_base", base * alpha ** (dim / (dim - 2)))
