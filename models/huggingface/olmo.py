"""OLMo 1: norms without weights."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "olmo"
CLASSES = ("OlmoForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w, turned=True, norm="layer")
    if w.config.has("clip_qkv"):
        w.key("attention.clamp_kqv", w.config.number("clip_qkv"))
