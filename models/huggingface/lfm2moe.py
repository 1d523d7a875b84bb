"""LFM2 with experts: LFM2's names."""

from edgeinfer.models.huggingface.lfm2 import write as write

ARCH = "lfm2moe"
CLASSES = ("Lfm2MoeForCausalLM",)
