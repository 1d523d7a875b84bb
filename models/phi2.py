"""Phi-1 to Phi-2: attention and a plain GELU MLP side by side on one layer norm, partial RoPE, biases everywhere.

Source: https://arxiv.org/abs/2306.11644.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        h = b.layer_norm(x, "attn_norm")
        q, k, v = b.qkv(h)
        attended = b.linear(b.attend(b.rope(q, rope), b.rope(k, rope), v, layer), "attn_output", c.dim)
        x = b.add(b.add(x, attended), b.plain_mlp(h, "gelu"))
    return b.unembed(b.layer_norm(b.outputs(x), "output_norm"))
