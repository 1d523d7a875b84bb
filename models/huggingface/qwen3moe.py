"""Qwen3-MoE: Qwen2-MoE's names, without a shared expert."""

from edgeinfer.models.huggingface.qwen2moe import write as write

ARCH = "qwen3moe"
CLASSES = ("Qwen3MoeForCausalLM",)
