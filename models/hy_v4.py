"""Hunyuan 4: several residual streams (hyper-connections): each branch reads a weighed sum of them, and its outcome is
added to each with a weight; latent attention with sinks and a gate, to the positions an indexer picks where there is
one; experts by a sigmoid with a bias for the choice, whose activations are limited, and a shared one.

Sources: https://arxiv.org/abs/2409.19606, llama.cpp's hy_v4.
"""

from edgeinfer.models import deepseek2, deepseek32, maple, step35
from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores

SINKS = Scores(sinks="attn_sinks")


def forward(b: Builder) -> Value:
    c, count = b.config, stream_count(b)
    limits, seen = step35.limit(b, "swiglu_clamp_exp"), None
    x = b.repeat(b.embed(), count)
    for layer in b.layers():
        h, weights = reading(b, x, "hc_attn", count)
        y, seen = attention(b, b.norm(h, "attn_norm"), layer, seen)
        x = b.add(x, b.mul(b.repeat(b.linear(y, "attn_output", c.dim), count), weights))
        h, weights = reading(b, x, "hc_ffn", count)
        y = feed_forward(b, b.norm(h, "ffn_norm"), limits[layer])
        x = b.add(x, b.mul(b.repeat(y, count), weights))
    return logits(b, x, count)


def logits(b: Builder, x: Value, count: int) -> Value:
    """Of a weighed sum of the streams."""
    x = b.outputs(x)
    h = b.mix(x, above_zero(b, gates(b, b.linear(b.norm(x), "output_hc_fn", count), "output_hc", 1)), count)
    return b.unembed(b.norm(h, "output_norm"))


def stream_count(b: Builder) -> int:
    return b.keys.integer("hyper_connection.count", most=64)  # that models have 4 of


def reading(b: Builder, x: Value, name: str, count: int) -> tuple[Value, Value]:
    """What a branch reads, and the weights of its outcome in the streams."""
    both = gates(b, b.linear(b.norm(x), f"{name}_fn", 2 * count), name, 2)
    weights = b.scale(b.split(both, count, count), b.keys.number("hyper_connection.magnitude"))
    return b.mix(x, above_zero(b, b.split(both, 0, count)), count), above_zero(b, weights)


def gates(b: Builder, x: Value, name: str, scales: int) -> Value:
    return b.activate(b.plus(b.times(x, f"{name}_scale.weight", scales), f"{name}_base.weight"), "sigmoid")


def above_zero(b: Builder, weights: Value) -> Value:
    return b.add(weights, b.fill(weights, [b.keys.number("hyper_connection.epsilon")] * weights.width))


def attention(b: Builder, h: Value, layer: int, seen: Value | None) -> tuple[Value, Value | None]:
    """`seen`: the positions seen in the layer before, and in this one."""
    c = b.config
    key_dim, rope = b.keys.integer("attention.key_length_mla"), b.model_rope("adjacent")
    vector = deepseek2.query_vector(b, h)
    if b.keys.integer("attention.indexer.top_k", 0, least=0):
        start = b.keys.integer("attention.indexer.key_length") - c.rope_dim
        seen = deepseek32.picked(b, h, vector, rope, layer, seen, start, c.eps)
    q = b.rope(deepseek2.queries(b, vector, key_dim), rope, key_dim, key_dim - c.rope_dim)
    y = deepseek2.latent(b, h, q, rope, layer, key_dim**-0.5, scores=SINKS, seen=seen)
    return b.mul(y, b.activate(b.linear(h, "attn_gate", y.width), "sigmoid")), seen


def feed_forward(b: Builder, h: Value, limit: float) -> Value:
    if not limit or not b.has("ffn_gate_inp"):
        return b.moe(h, "silu", "sigmoid")
    width = b.expert_width() * b.keys.integer("expert_shared_count")
    return b.add(maple.experts(b, h, limit, b.router("sigmoid")), b.gated_mlp(h, "silu", width, "_shexp"))
