"""DeepSeek V4: GLM 5.3's residual streams.  Tokens attend to a window of positions and, in most layers, to pools of all
before: of 128 positions, or of 4, which overlap and of which an indexer picks some.  Keys are values too, so what has
turned in them is turned back.  Experts by the root of a softplus, in the first layers by the token's id.

Source: llama.cpp's deepseek4.  Layers that predict further tokens are left out.
"""

import dataclasses

from edgeinfer import rope
from edgeinfer.config import MIN_ROPE_BASE
from edgeinfer.models import deepseek2, glm5_next, hy_v4, maple, step35
from edgeinfer.plan import Builder, Value
from edgeinfer.rope import Rope

OVERLAPPING = 4  # positions of such pools
INDEXER = (*(f"indexer_compressor_{x}" for x in ("kv", "gate", "ape", "norm")), "indexer.attn_q_b", "indexer.proj")


def forward(b: Builder) -> Value:
    count, limits, last = hy_v4.stream_count(b), step35.limits(b), b.main_layers
    pools, x = b.keys.integers("attention.compress_ratios", b.config.layers, None, 0, True), b.repeat(b.embed(), count)
    for layer in b.layers(last if b.has(f"blk.{last}.nextn.eh_proj") else None):  # counted in files without them too
        h, weights, mixed = glm5_next.reading(b, x, "hc_attn", count)
        y = attention(b, b.norm(h, "attn_norm"), layer, pools[layer])
        x = b.add(mixed, b.mul(b.repeat(y, count), weights))
        h, weights, mixed = glm5_next.reading(b, x, "hc_ffn", count)
        y = feed_forward(b, b.norm(h, "ffn_norm"), *limits[layer])
        x = b.add(mixed, b.mul(b.repeat(y, count), weights))
    return hy_v4.logits(b, x, count)


def attention(b: Builder, h: Value, layer: int, size: int) -> Value:
    c, turn, vector = b.config, rotation(b, size), deepseek2.query_vector(b, h)
    q = turned(b, b.norm(b.linear(vector, "attn_q_b", c.heads * c.key_dim), size=c.key_dim), turn, c.key_dim)
    k = turned(b, b.norm(b.linear(h, "attn_kv", c.key_dim), "attn_kv_a_norm"), turn, c.key_dim)
    y = b.attend(q, k, k, layer, b.keys.integer("attention.sliding_window"), scores=hy_v4.SINKS, logs=size > 0)
    if size:
        k = pooled(b, h, "attn_compressor", c.key_dim, size, turn)
        seen = picked(b, h, vector, layer, turn) if size == OVERLAPPING else None
        y = b.together(y, b.attend(q, k, k, c.layers + layer, seen=seen, stride=size, logs=True))
    y = turned(b, y, dataclasses.replace(turn, frequencies=tuple(-f for f in turn.frequencies)), c.key_dim)
    groups, rank = (b.keys.integer(f"attention.output_{name}") for name in ("group_count", "lora_rank"))
    return b.linear(b.head_linear(y, "attn_output_a", groups, rank), "attn_output_b", c.dim)


def rotation(b: Builder, size: int) -> Rope:
    """Positions are scaled in layers with pools only, and cos and sin grow in none."""
    base = b.keys.number("attention.compress_rope_freq_base", least=MIN_ROPE_BASE) if size else b.config.rope_base
    scaled = rope.of_model(dataclasses.replace(b.config, rope_base=base), "adjacent")
    return dataclasses.replace(scaled, scale=1.0) if size else rope.plain(b.config.rope_dim, base, "adjacent")


def turned(b: Builder, x: Value, turn: Rope, width: int) -> Value:
    return b.rope(x, turn, width, width - b.config.rope_dim)


def pooled(b: Builder, h: Value, name: str, width: int, size: int, turn: Rope) -> Value:
    """Keys of pools of so many positions; each stands where its pool begins."""
    rows, gate = (b.linear(h, f"{name}_{part}", width * (1 + (size == OVERLAPPING))) for part in ("kv", "gate"))
    y = (b.overlap if size == OVERLAPPING else b.condense)(rows, gate, f"{name}_ape", size)
    return turned(b, b.norm(y, f"{name}_norm"), dataclasses.replace(turn, stride=size), width)


def picked(b: Builder, h: Value, vector: Value, layer: int, turn: Rope) -> Value | None:
    """The pools that are seen, all if None."""
    count, heads, width = (b.keys.integer(f"attention.indexer.{x}") for x in ("top_k", "head_count", "key_length"))
    if b.n_ctx // OVERLAPPING <= count:
        b.ignore(*INDEXER)
        return None
    q = turned(b, b.linear(vector, "indexer.attn_q_b", heads * width), turn, width)
    k = pooled(b, h, "indexer_compressor", width, OVERLAPPING, turn)
    return b.choose(b.rate(q, k, b.linear(h, "indexer.proj", heads), layer, OVERLAPPING), count, stride=OVERLAPPING)


def feed_forward(b: Builder, h: Value, limit: float, shared_limit: float) -> Value:
    scores, router = b.linear(h, "ffn_gate_inp", b.keys.integer("expert_count")), b.router("sqrtsoftplus")
    by_id, width = b.has("ffn_gate_tid2eid"), b.expert_width() * b.keys.integer("expert_shared_count")
    choice = b.assign(scores, "ffn_gate_tid2eid", router) if by_id else b.route(scores, router)
    return b.add(maple.chosen_experts(b, h, choice, limit), maple.dense(b, h, width, "_shexp", shared_limit))
