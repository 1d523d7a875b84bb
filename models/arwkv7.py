"""ARWKV 7: RWKV 7's mixing of time, which may be without its gate and norm, in the layers of Qwen2.

Source: https://arxiv.org/abs/2501.15570.
"""

from edgeinfer.models import rwkv7
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    x = b.embed()
    first: Value | None = None
    for _ in b.layers():
        h, v = rwkv7.time_mix(b, b.norm(x, "attn_norm"), first)
        first = v if first is None else first
        x = b.add(x, h)
        x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)
