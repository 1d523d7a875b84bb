"""DeepSeek MoE: Llama's names, and DeepSeek's of the experts; GGUF's RoPE turns adjacent pairs."""

from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import deepseek2_ocr

ARCH = "deepseek"
CLASSES = ("DeepseekForCausalLM",)


def write(w: Writer) -> None:
    deepseek2_ocr.decode(w, turned=True)
