"""MiniCPM 1, 2 and 4: Llama's names, and numbers that scales follow from; GGUF's RoPE turns adjacent pairs."""

import math

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "minicpm"
CLASSES = ("MiniCPMForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    w.key("embedding_scale", w.config.number("scale_emb", default=1.0))
    w.key("residual_scale", w.config.number("scale_depth", default=1.0) / math.sqrt(usual.layers(w)))
    w.key("logit_scale", usual.dim(w) / w.config.integer("dim_model_base", default=1, least=1))
    usual.decoder(w, turned=True)
