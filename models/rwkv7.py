"""RWKV 7, "Goose": a matrix for each head that learns by a generalised delta rule.

Source: https://arxiv.org/abs/2503.14456.
"""

import math

from edgeinfer.plan import Builder, Value

GROUP_EPS = 64e-5  # of the norm of each head
DECAY = -math.exp(-0.5)  # the strongest, as a logarithm
MIXED = 6  # receptance, decay, key, value, rate, gate


def forward(b: Builder) -> Value:
    x = b.layer_norm(b.embed(), "token_embd_norm")
    first: Value | None = None  # V of the first layer
    for _ in b.layers():
        h, v = time_mix(b, b.layer_norm(x, "attn_norm"), first)
        first = v if first is None else first
        x = b.add(x, h)
        x = b.add(x, channel_mix(b, b.layer_norm(x, "attn_norm_2")))
    return b.unembed(b.layer_norm(b.outputs(x), "output_norm"))


def time_mix(b: Builder, h: Value, first: Value | None) -> tuple[Value, Value]:
    """The mixer's output, and its V before it is mixed with that of the first layer."""
    dim, size = b.config.dim, b.keys.integer("wkv.head_size")
    heads, parts = dim // size, MIXED if b.has("time_mix_g1") else MIXED - 1
    back = b.repeat(b.add(b.shift(h), b.scale(h, -1.0)), parts)
    mixed = b.add(b.times(back, "time_mix_lerp_fused.weight"), b.repeat(h, parts))
    to_r, to_w, to_k, to_v, to_a, *to_g = (b.split(mixed, i * dim, dim) for i in range(parts))
    r, k = b.linear(to_r, "time_mix_receptance", dim), b.linear(to_k, "time_mix_key", dim)
    own = v = b.linear(to_v, "time_mix_value", dim)
    if first is not None:
        share = b.activate(low_rank(b, to_v, "v", "value_residual_mix", True), "sigmoid")
        v = b.add(v, b.mul(b.add(first, b.scale(v, -1.0)), share))
    else:
        b.ignore("time_mix_v0", "time_mix_v1", "time_mix_v2")
    w = b.activate(low_rank(b, to_w, "w", "decay", True, "tanh"), "sigmoid")
    w = b.activate(b.scale(w, DECAY), "exp")
    rate = b.activate(low_rank(b, to_a, "a", "iclr", True), "sigmoid")
    removed = b.l2_norm(b.times(k, "time_mix_k_k.weight"), size, 1e-12)
    boost = b.times(k, "time_mix_k_a.weight")
    k = b.add(k, b.add(b.mul(rate, boost), b.scale(boost, -1.0)))
    y = b.delta(r, k, v, w, b.scale(removed, -1.0), b.mul(removed, rate), heads)
    y = b.layer_norm(y, "time_mix_ln", size, GROUP_EPS) if b.has("time_mix_ln") else y
    y = b.add(y, b.mul(v, b.dot(b.times(k, "time_mix_r_k.weight"), r, heads)))
    y = b.mul(y, low_rank(b, to_g[0], "g", "gate", False, "sigmoid")) if to_g else y
    return b.linear(y, "time_mix_output", dim), own


def low_rank(b: Builder, x: Value, name: str, key: str, bias: bool, act: str = "") -> Value:
    """Two linear layers with few numbers between them."""
    low = b.linear(x, f"time_mix_{name}1", b.keys.integer(f"attention.{key}_lora_rank"))
    low = b.activate(low, act) if act else low
    return b.linear(low, f"time_mix_{name}2", b.config.dim, bias=f"time_mix_{name}0" if bias else None)


def channel_mix(b: Builder, h: Value) -> Value:
    back = b.add(b.shift(h), b.scale(h, -1.0))
    k = b.add(b.times(back, "channel_mix_lerp_k.weight"), h)
    k = b.activate(b.linear(k, "channel_mix_key", b.config.ff_dim), "relu2")
    return b.linear(k, "channel_mix_value", b.config.dim)
