"""DeepSeek MoE 16B: Llama's attention, experts and a shared expert after some dense layers.

Source: https://arxiv.org/abs/2401.06066.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.rope import Pairs


def forward(b: Builder) -> Value:
    return decode(b, "adjacent")


def decode(b: Builder, pairs: Pairs) -> Value:
    """Also of its kin, whose RoPE turns other pairs."""
    c = b.config
    rope = b.model_rope(pairs)
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)
