"""Jais 2: the usual names with biases, without a gate."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "jais2"
CLASSES = ("Jais2ForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "relu2")
    usual.decoder(w, norm="layer")
