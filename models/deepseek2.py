"""DeepSeek V2, V3, R1, Kimi K2, GLM 4.7 Flash: latent attention (MLA), where K and V of all heads come from one small
vector, all that is kept of a token; experts in groups and a shared expert.

Sources: https://arxiv.org/abs/2405.04434, https://arxiv.org/abs/2412.19437.  Newer files have attn_k_b and attn_v_b for
attn_kv_b: queries are taken into the latent space, and attention is over the latent vectors.
"""

import dataclasses
from typing import Any

from edgeinfer.plan import Builder, Value
from edgeinfer.rope import Rope, yarn_growth


def forward(b: Builder) -> Value:
    c = b.config
    key_dim, rope, scale = rotation(b)
    growth = b.keys.number("attention.temperature_scale", 0.0)
    span = b.keys.integer("attention.temperature_length", c.rope_context)
    x = b.embed()
    for layer in b.layers(b.main_layers):
        h = b.norm(x, "attn_norm")
        q = b.rope(queries(b, query_vector(b, h), key_dim), rope, key_dim, key_dim - c.rope_dim)
        q = b.temper(q, growth, span) if growth else q
        attended = (latent if b.has("attn_k_b") else expanded)(b, h, q, rope, layer, scale)
        x = b.add(x, b.linear(attended, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)


def rotation(b: Builder) -> tuple[int, Rope, float]:
    """Dims of a head of Q, how it turns, and the scale of the scores."""
    c = b.config
    key_dim, rope = b.keys.integer("attention.key_length_mla", c.key_dim), b.model_rope("adjacent")
    multiplier = 10 * c.rope_log_multiplier  # files hold a tenth of mscale_all_dim
    if multiplier:  # then it is the scores that grow, and not cos and sin
        rope = dataclasses.replace(rope, scale=c.rope_attn_factor)
    return key_dim, rope, (rope.scale * yarn_growth(c.rope_factor, multiplier)) ** 2 * key_dim**-0.5


def query_vector(b: Builder, h: Value) -> Value:
    """What Q of all heads is made from: a small vector where there is attn_q_a."""
    if not b.has("attn_q_a"):
        return h
    return b.norm(b.linear(h, "attn_q_a", b.keys.integer("attention.q_lora_rank")), "attn_q_a_norm")


def queries(b: Builder, vector: Value, key_dim: int) -> Value:
    return b.linear(vector, "attn_q_b" if b.has("attn_q_b") else "attn_q", b.config.heads * key_dim)


def compressed(b: Builder, h: Value, rope: Rope | None) -> tuple[Value, Value]:
    """The latent vector of K and V, and the part of K that turns, if any does, which all heads share."""
    rank, turning = b.keys.integer("attention.kv_lora_rank"), b.config.rope_dim
    both = b.linear(h, "attn_kv_a_mqa", rank + turning)
    shared = b.split(both, rank, turning)
    return b.norm(b.split(both, 0, rank), "attn_kv_a_norm"), b.rope(shared, rope, turning) if rope else shared


def expanded(b: Builder, h: Value, q: Value, rope: Rope | None, layer: int, scale: float | None = None) -> Value:
    """Attention over K and V of every head."""
    c, (vector, turned) = b.config, compressed(b, h, rope)
    still = c.key_dim - c.rope_dim
    size = still + c.value_dim
    kv = b.linear(vector, "attn_kv_b", c.heads * size)
    k = b.join(b.split(kv, 0, still, size), b.repeat(turned, c.heads), groups=c.heads)
    return b.attend(q, k, b.split(kv, still, c.value_dim, size), layer, scale=scale)


def latent(b: Builder, h: Value, q: Value, rope: Rope | None, layer: int, scale: float, **how: Any) -> Value:
    value_dim = b.keys.integer("attention.value_length_mla")
    return absorbed(b, q, *compressed(b, h, rope), value_dim, layer=layer, scale=scale, **how)


def absorbed(b: Builder, q: Value, vector: Value, turned: Value, value_dim: int, **how: Any) -> Value:
    """Attention over the latent vectors, one head of K and V for all: scores are (k_b q) . vector + turned parts."""
    heads, size, turning = b.config.heads, q.width // b.config.heads, turned.width
    small = b.head_linear(b.split(q, 0, size - turning, size), "attn_k_b", heads, vector.width)
    q = b.join(small, b.split(q, size - turning, turning, size), groups=heads)
    return b.head_linear(b.attend(q, b.join(vector, turned), vector, **how), "attn_v_b", heads, value_dim)
