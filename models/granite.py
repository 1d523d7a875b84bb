"""Granite 3: Llama's block with scaled embedding, scores, branches and logits.

Source: https://arxiv.org/abs/2405.04324, and https://arxiv.org/abs/2203.03466 for the scales.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    branch = b.keys.number("residual_scale", 1.0) or 1.0
    scale = b.keys.number("attention.scale", 0.0) or None
    rope = b.model_rope("adjacent")
    x = b.embed(scale=b.keys.number("embedding_scale", 1.0) or 1.0)
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer, scale=scale)
        x = b.add(x, b.scale(b.linear(h, "attn_output", c.dim), branch))
        x = b.add(x, b.scale(b.moe(b.norm(x, "ffn_norm"), "silu", normalise=True), branch))
    return b.scale(b.logits(x), 1 / (b.keys.number("logit_scale") or 1.0))
