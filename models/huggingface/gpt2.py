"""GPT-2: matrices are transposed; Q, K and V are in one."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "gpt2"
CLASSES = ("GPT2LMHeadModel",)
PREFIX = "transformer."
MODEL = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
}
NORMS = {"attn_norm": "ln_1", "ffn_norm": "ln_2"}
LINEAR = {"attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}


def write(w: Writer) -> None:
    usual.expect_activation(w, "gelu_new", "gelu_pytorch_tanh")
    usual.sizes(w, "layer")
    usual.head(w, MODEL)
    for _ in w.layers(usual.layers(w), "transformer.h"):
        for name, source in LINEAR.items():
            w.put(f"{name}.weight", w.take(f"{source}.weight").T)
        w.copy({**NORMS, **LINEAR})
