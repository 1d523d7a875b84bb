"""Talkie: a normed embedding that every layer adds again, heads of Q and K normed after RoPE, norms without weights.

Source: llama.cpp's talkie.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    start = x = b.norm(b.embed())
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x))
        q, k = (b.norm(b.rope(y, rope), None, c.key_dim) for y in (q, k))
        h = b.attend(b.times(q, "attn_q_norm.weight", c.heads), k, v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.norm(x), "silu"))
        x = b.add(x, b.times(start, "layer_output_scale.weight"))
    return b.scale(b.unembed(b.norm(b.outputs(x))), b.keys.number("logit_scale"))
