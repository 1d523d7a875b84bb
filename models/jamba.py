"""Jamba: Mamba layers, a few of attention without positions, experts in some.

Source: https://arxiv.org/abs/2403.19887.
"""

from edgeinfer.models import mamba
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    x = b.embed()
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        if b.config.kv_heads:
            h = b.linear(b.attend(*b.qkv(h), layer), "attn_output", b.config.dim)
        else:
            h = mamba.mixer(b, h)
        x = b.add(x, h)
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)
