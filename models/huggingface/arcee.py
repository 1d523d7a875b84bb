"""Arcee AFM: Llama's names, without a gate."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "arcee"
CLASSES = ("ArceeForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "relu2")
    usual.decoder(w, turned=True)
