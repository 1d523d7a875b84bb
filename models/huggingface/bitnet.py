"""BitNet b1.58 whose weights are as they are used: the usual names, and norms inside both branches."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "bitnet"
CLASSES = ("BitNetForCausalLM",)
LAYER = {**usual.LAYER, "attn_sub_norm": "self_attn.attn_sub_norm", "ffn_sub_norm": "mlp.ffn_sub_norm"}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w, LAYER)
