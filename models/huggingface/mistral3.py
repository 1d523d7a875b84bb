"""Ministral 3 and Mistral Small 3, their text part too: Llama's names, queries that grow with their position.

The class of models that also see is Mistral Small 4's as well."""

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import mistral4

ARCH = "mistral3"
CLASSES = ("Ministral3ForCausalLM", "Mistral3ForConditionalGeneration")


def write(w: Writer) -> None:
    if w.config.has("kv_lora_rank"):
        w.arch = mistral4.ARCH
        mistral4.write(w)
        return
    usual.expect_activation(w, "silu")
    usual.decoder(w, turned=True)
    growth = rope.parameters(w.config).number("llama_4_scaling_beta", default=0.0)
    if growth:
        w.key("attention.temperature_scale", growth)
