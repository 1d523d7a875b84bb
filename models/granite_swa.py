"""Granite with sliding windows in some layers and attention sinks in all of them.

Source: llama.cpp's granite-swa.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores


def forward(b: Builder) -> Value:
    c = b.config
    window, local = b.keys.integer("attention.sliding_window"), b.sliding()
    branch = b.keys.number("residual_scale", 1.0) or 1.0
    scale = b.keys.number("attention.scale", 0.0) or None
    scores = Scores(sinks="attn_sinks")
    rope = b.model_rope("adjacent")
    x = b.embed(scale=b.keys.number("embedding_scale", 1.0) or 1.0)
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer, window if local[layer] else 0, scale, scores)
        x = b.add(x, b.scale(b.linear(h, "attn_output", c.dim), branch))
        x = b.add(x, b.scale(b.moe(b.norm(x, "ffn_norm"), "silu", normalise=True), branch))
    return b.scale(b.logits(x), 1 / (b.keys.number("logit_scale") or 1.0))
