"""OLMo 1: layer norms without weights; Q, K and V may be clamped.

Source: https://arxiv.org/abs/2402.00838.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    limit = b.keys.number("attention.clamp_kqv", 0.0)
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.layer_norm(x))
        if limit:
            q, k, v = b.clamp(q, limit), b.clamp(k, limit), b.clamp(v, limit)
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.layer_norm(x), "silu"))
    return b.unembed(b.layer_norm(b.outputs(x)))
