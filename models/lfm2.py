"""LFM2: gated short convolutions and a few layers of attention; experts in the larger ones.

Source: https://arxiv.org/abs/2511.23404.  The norm before the output matrix goes by token_embd_norm.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    rope, window = b.model_rope("halves"), b.keys.integer("attention.sliding_window", 0, least=0)
    x = b.embed()
    for layer in b.layers():
        c, h = b.config, b.norm(x, "attn_norm")
        if c.kv_heads:
            q, k, v = b.qkv(h)
            q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
            h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer, window)
            h = b.linear(h, "attn_output", c.dim)
        else:
            h = short_conv(b, h)
        x = b.add(x, h)
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu", "sigmoid", normalise=True))
    return b.unembed(b.norm(b.outputs(x), "token_embd_norm"))


def short_conv(b: Builder, h: Value) -> Value:
    """One gate before a convolution over a few tokens and one after it."""
    dim = b.config.dim
    parts = b.linear(h, "shortconv.in_proj", 3 * dim)
    before, after, y = (b.split(parts, i * dim, dim) for i in range(3))
    y = b.conv(b.mul(before, y), "shortconv.conv", b.keys.integer("shortconv.l_cache"))
    return b.linear(b.mul(after, y), "shortconv.out_proj", dim)
