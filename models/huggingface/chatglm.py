"""GLM-4 9B: the usual names, gate and up in one matrix; its RoPE turns adjacent pairs as GGUF's does."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "chatglm"
CLASSES = ("GlmForCausalLM",)
LAYER = {**usual.NORMS, **usual.ATTENTION, "ffn_up": "mlp.gate_up_proj", "ffn_down": "mlp.down_proj"}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w, LAYER, share=0.5)
