"""Seed-OSS: the usual names, the norm before the feed-forward by another in GGUF."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "seed_oss"
CLASSES = ("SeedOssForCausalLM",)
LAYER = {
    **usual.ATTENTION,
    **usual.MLP,
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w, LAYER)
