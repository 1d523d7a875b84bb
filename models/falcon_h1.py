"""Falcon-H1: attention and a Mamba 2 mixer side by side in every layer.

Source: https://arxiv.org/abs/2507.22448.  The norm before the feed-forward has no ending to its name.
"""

from edgeinfer.models import mamba2
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        q, k, v = b.qkv(h)
        attended = b.linear(b.attend(b.rope(q, rope), b.rope(k, rope), v, layer), "attn_output", c.dim)
        x = b.add(x, b.add(attended, mamba2.mixer(b, h)))
        x = b.add(x, b.gated_mlp(b.times(b.norm(x), "ffn_norm"), "silu"))
    return b.logits(x)
