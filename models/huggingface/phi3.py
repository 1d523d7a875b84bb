"""Phi-3 and Phi-4-mini: Q, K and V in one matrix, gate and up in another, as GGUF has them too."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "phi3"
CLASSES = ("Phi3ForCausalLM",)
LAYER = {
    **usual.NORMS,
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_up": "mlp.gate_up_proj",
    "ffn_down": "mlp.down_proj",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.lose_window(w)
    usual.decoder(w, LAYER)
