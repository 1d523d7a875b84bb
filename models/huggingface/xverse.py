"""XVERSE: Llama's names; GGUF's RoPE turns adjacent pairs."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "xverse"
CLASSES = ("XverseForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w, turned=True)
