"""MiniMax-01 and M1: seven layers of lightning attention, linear attention in which each head forgets at a rate of its
own, to one of softmax attention with partial RoPE; experts; a branch is added to its normed input.

Source: https://arxiv.org/abs/2501.08313.
"""

import math

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c, last = b.config, b.config.layers - 1
    rope, share = b.model_rope("halves"), b.keys.number("residual_scale")
    x = b.embed()
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        if b.has("attn_norm_2"):
            y = lightning(b, h, 1 - layer / max(last, 1) + 1e-5)
        else:
            q, k, v = b.qkv(h)
            y = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(b.linear(y, "attn_output", c.dim), b.scale(h, share))
        h = b.norm(x, "ffn_norm")
        x = b.add(b.moe(h, "silu", normalise=True), b.scale(h, share))
    return b.logits(x)


def lightning(b: Builder, h: Value, rate: float) -> Value:
    """S <- decay S + v k^T;  y = S q, normed and gated; earlier layers forget faster, by `rate`."""
    heads, size = b.config.heads, b.config.key_dim
    width = heads * size
    mixed = b.activate(b.linear(h, "attn_qkv", 3 * width), "silu")
    q, k, v = (b.split(mixed, start * size, size, 3 * size) for start in range(3))
    decays = [math.exp(-rate * 2 ** (-8 * (head + 1) / heads)) for head in range(heads)]
    nothing = b.fill(h, [0.0] * width)
    y = b.delta(q, k, v, b.fill(h, [decay for decay in decays for _ in range(size)]), nothing, nothing, heads)
    return b.mul(b.norm(y, "attn_norm_2"), b.activate(b.linear(h, "attn_gate", width), "sigmoid"))
