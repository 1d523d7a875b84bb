"""OLMoE: Qwen3-MoE's names."""

from edgeinfer.models.huggingface.qwen2moe import write as write

ARCH = "olmoe"
CLASSES = ("OlmoeForCausalLM",)
