"""ERNIE 4.5, dense: the usual names; its RoPE turns adjacent pairs as GGUF's does."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "ernie4_5"
CLASSES = ("Ernie4_5ForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w)
