"""Ministral 3 and Mistral Small 3, their text part too: Llama's names, queries that grow with their position."""

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "mistral3"
CLASSES = ("Ministral3ForCausalLM", "Mistral3ForConditionalGeneration")


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w, turned=True)
    growth = rope.parameters(w.config).number("llama_4_scaling_beta", default=0.0)
    if growth:
        w.key("attention.temperature_scale", growth)
