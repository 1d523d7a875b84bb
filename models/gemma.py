"""Gemma 1: Llama's block with a GELU gate, the embedding scaled by sqrt(dim).

Source: https://arxiv.org/abs/2403.08295.  GGUF holds norm weights as 1 + w.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed(scale=c.dim**0.5)
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "gelu"))
    return b.logits(x)
