"""Falcon: attention and a plain GELU MLP side by side on one layer norm, or on two where there is attn_norm_2.

Source: https://arxiv.org/abs/2311.16867.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        normed = b.layer_norm(x, "attn_norm")
        q, k, v = b.qkv(b.layer_norm(x, "attn_norm_2") if b.has("attn_norm_2") else normed)
        h = b.linear(b.attend(b.rope(q, rope), b.rope(k, rope), v, layer), "attn_output", c.dim)
        x = b.add(b.add(x, h), b.plain_mlp(normed, "gelu"))
    return b.unembed(b.layer_norm(b.outputs(x), "output_norm"))
