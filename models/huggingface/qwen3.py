"""Qwen3: the usual names."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "qwen3"
CLASSES = ("Qwen3ForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.lose_window(w)
    usual.decoder(w)
