"""Qwen3-VL with experts, its text part: Qwen3-MoE's names."""

from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import qwen2vl, qwen3moe

ARCH = "qwen3vlmoe"
CLASSES = ("Qwen3VLMoeForConditionalGeneration",)


def write(w: Writer) -> None:
    qwen3moe.write(w)
    qwen2vl.sections(w)
