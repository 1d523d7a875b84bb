"""DeepSeek V2, V3, R1, Kimi K2, GLM 4.7 Flash: latent attention (MLA), where K and V of all heads come from one small
vector, all that is kept of a token; experts in groups and a shared expert.

Sources: https://arxiv.org/abs/2405.04434, https://arxiv.org/abs/2412.19437.  Newer files have the matrices that make K
and V apart (attn_k_b, attn_v_b): queries are taken into the latent space and attention is over the latent vectors.
"""

import dataclasses

from edgeinfer.plan import Builder, Value
from edgeinfer.rope import Rope, yarn_growth


def forward(b: Builder) -> Value:
    c = b.config
    key_dim = b.keys.integer("attention.key_length_mla", c.key_dim)
    rope = b.model_rope("adjacent")
    multiplier = 10 * c.rope_log_multiplier  # files hold a tenth of mscale_all_dim
    if multiplier:  # then it is the scores that grow, and not cos and sin
        rope = dataclasses.replace(rope, scale=c.rope_attn_factor)
    scale = (rope.scale * yarn_growth(c.rope_factor, multiplier)) ** 2 * key_dim**-0.5
    growth = b.keys.number("attention.temperature_scale", 0.0)
    span = b.keys.integer("attention.temperature_length", c.rope_context)
    x = b.embed()
    for layer in b.layers(b.main_layers):
        h = b.norm(x, "attn_norm")
        q = b.rope(queries(b, h, key_dim), rope, key_dim, key_dim - c.rope_dim)
        q = b.temper(q, growth, span) if growth else q
        attended = (latent if b.has("attn_k_b") else expanded)(b, h, q, rope, layer, scale)
        x = b.add(x, b.linear(attended, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)


def queries(b: Builder, h: Value, key_dim: int) -> Value:
    """Q of all heads, through a small vector where there are attn_q_a and attn_q_b."""
    width = b.config.heads * key_dim
    if b.has("attn_q"):
        return b.linear(h, "attn_q", width)
    small = b.linear(h, "attn_q_a", b.keys.integer("attention.q_lora_rank"))
    return b.linear(b.norm(small, "attn_q_a_norm"), "attn_q_b", width)


def compressed(b: Builder, h: Value, rope: Rope | None) -> tuple[Value, Value]:
    """The latent vector of K and V, and the part of K that turns, if any does, which all heads share."""
    rank, turning = b.keys.integer("attention.kv_lora_rank"), b.config.rope_dim
    both = b.linear(h, "attn_kv_a_mqa", rank + turning)
    shared = b.split(both, rank, turning)
    return b.norm(b.split(both, 0, rank), "attn_kv_a_norm"), b.rope(shared, rope, turning) if rope else shared


def expanded(b: Builder, h: Value, q: Value, rope: Rope | None, layer: int, scale: float | None = None) -> Value:
    """Attention over K and V of every head."""
    c = b.config
    still = c.key_dim - c.rope_dim
    vector, turned = compressed(b, h, rope)
    size = still + c.value_dim
    kv = b.linear(vector, "attn_kv_b", c.heads * size)
    k = b.join(b.split(kv, 0, still, size), b.repeat(turned, c.heads), groups=c.heads)
    return b.attend(q, k, b.split(kv, still, c.value_dim, size), layer, scale=scale)


def latent(b: Builder, h: Value, q: Value, rope: Rope | None, layer: int, scale: float) -> Value:
    """Attention over the latent vectors, one head of K and V for all: scores are (k_b q) . vector + turned parts."""
    heads, rank, turning = b.config.heads, b.keys.integer("attention.kv_lora_rank"), b.config.rope_dim
    vector, turned = compressed(b, h, rope)
    size = q.width // heads
    absorbed = b.head_linear(b.split(q, 0, size - turning, size), "attn_k_b", heads, rank)
    q = b.join(absorbed, b.split(q, size - turning, turning, size), groups=heads)
    mixed = b.attend(q, b.join(vector, turned), vector, layer, scale=scale)
    return b.head_linear(mixed, "attn_v_b", heads, b.keys.integer("attention.value_length_mla"))
