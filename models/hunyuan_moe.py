"""Hunyuan A13B: Hunyuan's attention, experts and a shared expert.

Source: https://huggingface.co/tencent/Hunyuan-A13B-Instruct.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(b.rope(q, rope), "attn_q_norm"), b.head_norm(b.rope(k, rope), "attn_k_norm")
        x = b.add(x, b.linear(b.attend(q, k, v, layer), "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu", normalise=True))
    return b.logits(x)
