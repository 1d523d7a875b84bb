"""EXAONE 3: GPT-2's names, and some of its own."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "exaone"
CLASSES = ("ExaoneForCausalLM",)
MODEL = {"token_embd": "transformer.wte", "output_norm": "transformer.ln_f", "output": "lm_head"}
LAYER = {
    "attn_norm": "ln_1",
    "attn_q": "attn.attention.q_proj",
    "attn_k": "attn.attention.k_proj",
    "attn_v": "attn.attention.v_proj",
    "attn_output": "attn.attention.out_proj",
    "ffn_norm": "ln_2",
    "ffn_gate": "mlp.c_fc_0",
    "ffn_up": "mlp.c_fc_1",
    "ffn_down": "mlp.c_proj",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w, LAYER, model=MODEL, prefix="transformer.h")
