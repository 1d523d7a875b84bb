"""Qwen2 and Qwen2.5: the usual names."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "qwen2"
CLASSES = ("Qwen2ForCausalLM", "Qwen2Model")
PREFIX = "model."


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.lose_window(w)
    usual.decoder(w)
