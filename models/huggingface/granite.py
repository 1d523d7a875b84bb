"""Granite 3: Llama's names, and the scales of embedding, scores, branches and logits."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "granite"
CLASSES = ("GraniteForCausalLM",)


def write(w: Writer) -> None:
    scales(w)
    usual.decoder(w, turned=True)


def scales(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    w.key("embedding_scale", w.config.number("embedding_multiplier", default=1.0))
    w.key("residual_scale", w.config.number("residual_multiplier", default=1.0))
    w.key("attention.scale", w.config.number("attention_multiplier", default=1.0))
    w.key("logit_scale", w.config.number("logits_scaling", default=1.0))
