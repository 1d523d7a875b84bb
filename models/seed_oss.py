"""Seed-OSS: Qwen2's block; the norm before the feed-forward goes by post_attention_norm.

Source: https://huggingface.co/ByteDance-Seed/Seed-OSS-36B-Instruct.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.norm(x, "post_attention_norm"), "silu"))
    return b.logits(x)
