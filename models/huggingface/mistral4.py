"""Mistral Large 3 and Small 4: DeepSeek's names, experts by a softmax, queries that grow with their position."""

from edgeinfer.huggingface import rope
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import deepseek2

ARCH = "mistral4"
CLASSES = ("Mistral4ForCausalLM",)


def write(w: Writer) -> None:
    deepseek2.write(w)
    w.key("expert_gating_func", 1)
    scaling = rope.parameters(w.config)
    growth = scaling.number("llama_4_scaling_beta", default=0.0)
    if growth:
        w.key("attention.temperature_scale", growth)
        w.key("attention.temperature_length", scaling.integer("original_max_position_embeddings", least=1))
