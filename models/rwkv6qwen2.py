"""QRWKV 6: RWKV 6's mixing of time as gated linear attention, with grouped keys and values, in the layers of Qwen2.

Sources: https://arxiv.org/abs/2501.15570, https://arxiv.org/abs/2505.03005.
"""

from edgeinfer.models import rwkv6
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    x = b.embed()
    for _ in b.layers():
        x = b.add(x, time_mix(b, b.norm(x, "attn_norm")))
        x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)


def time_mix(b: Builder, h: Value) -> Value:
    """A matrix for each head: S <- S diag(w) + v ((1 - w) k)^T; y = S q."""
    dim, size = b.config.dim, b.keys.integer("wkv.head_size")
    heads = dim // size
    groups = b.config.kv_heads or heads
    inputs = rwkv6.mixed(b, h)
    r = b.linear(inputs["r"], "time_mix_receptance", dim)
    k, v = (
        b.repeat(b.linear(inputs[name[0]], f"time_mix_{name}", groups * size), heads // groups, size)
        for name in ("key", "value")
    )
    w = rwkv6.decay(b, inputs["w"])
    k = b.add(k, b.scale(b.mul(k, w), -1.0))
    nothing = b.fill(k, (0.0,) * dim)
    y = b.delta(b.scale(r, size**-0.5), k, v, w, nothing, nothing, heads)
    gate = b.activate(b.linear(inputs["g"], "time_mix_gate", dim), "sigmoid")
    return b.linear(b.mul(y, gate), "time_mix_output", dim)
