"""Ministral 3 and Mistral Large 3's dense relatives: Llama's block with YaRN and queries that grow with their position.

Source: https://huggingface.co/mistralai/Ministral-3-3B-Instruct-2512.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    growth = b.keys.number("attention.temperature_scale", 0.0)
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.rope(q, rope), b.rope(k, rope)
        q = b.temper(q, growth, c.rope_context) if growth else q
        x = b.add(x, b.linear(b.attend(q, k, v, layer), "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu", normalise=True))
    return b.logits(x)
