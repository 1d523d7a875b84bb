"""Arctic: a dense feed-forward, and beside the whole layer experts that read its input.

Source: https://www.snowflake.com/en/blog/arctic-open-efficient-foundation-language-models-snowflake/.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        after = b.add(x, b.linear(h, "attn_output", c.dim))
        after = b.add(after, b.gated_mlp(b.norm(after, "ffn_norm"), "silu", c.dim))
        x = b.add(after, b.experts(b.norm(x, "ffn_norm_exps"), "silu", c.ff_dim, b.router(normalise=True)))
    return b.logits(x)
