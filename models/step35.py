"""Step 3.5: a gate on each head of attention, sliding windows in which all of a head turns and global layers in which
half of it does, experts by a sigmoid with a bias for the choice, a shared expert; some layers limit their activations.

Source: https://arxiv.org/abs/2602.10604.  The last layers predict further tokens and are left out.
"""

import dataclasses

from edgeinfer import rope
from edgeinfer.errors import UnsupportedError
from edgeinfer.plan import Builder, Value
from edgeinfer.rope import Rope

LEAST_LIMIT = 0.28  # beyond what silu is below zero


def forward(b: Builder) -> Value:
    c = b.config
    window, local, turns = b.keys.integer("attention.sliding_window"), b.sliding(), ropes(b)
    limits = limit(b, "swiglu_clamp_exp"), limit(b, "swiglu_clamp_shexp")
    x = b.embed()
    for layer in b.layers(b.main_layers):
        turn, h = turns[local[layer]], b.norm(x, "attn_norm")
        q, k, v = b.qkv(h)
        if b.has("attn_q_norm"):
            q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        y = b.attend(b.rope(q, turn), b.rope(k, turn), v, layer, window if local[layer] else 0)
        if b.has("attn_gate"):
            y = b.mul(y, b.activate(b.linear(h, "attn_gate", b.config.heads), "sigmoid"))
        x = b.add(x, b.linear(y, "attn_output", c.dim))
        x = b.add(x, feed_forward(b, b.norm(x, "ffn_norm"), limits[0][layer], limits[1][layer]))
    return b.logits(x)


def ropes(b: Builder) -> tuple[Rope, Rope]:
    """Of global layers, which have the file's frequency factors, and of those with windows."""
    c = b.config
    factors = b.factors("rope_freqs") if b.has("rope_freqs") else None
    half = dataclasses.replace(c, rope_dim=c.rope_dim // 4 * 2)
    first = None if factors is None else factors[: half.rope_dim // 2]
    return rope.of_model(half, "halves", first), b.local_rope(base=c.rope_base)


def limit(b: Builder, key: str) -> tuple[float, ...]:
    """Of the activations of each layer; 0 where there is none."""
    return b.keys.numbers(key, b.config.layers) if b.keys.has(key) else (0.0,) * b.config.layers


def limits(b: Builder) -> list[tuple[float, float]]:
    """Of the experts' activations in each layer and of the shared one's, which are the same if nothing is said."""
    both = ("swiglu_clamp_exp", "swiglu_clamp_shexp" if b.keys.has("swiglu_clamp_shexp") else "swiglu_clamp_exp")
    return list(zip(*(limit(b, key) for key in both), strict=True))


def feed_forward(b: Builder, h: Value, limit: float, shared_limit: float) -> Value:
    if not b.has("ffn_gate_inp"):
        return dense(b, h, b.config.ff_dim, "", shared_limit)
    count, width, router = b.keys.integer("expert_count"), b.expert_width(), b.router("sigmoid")
    choice = b.route(b.linear(h, "ffn_gate_inp", count), router)
    gate, up = (b.expert_linear(h, choice, f"ffn_{name}_exps", count, width) for name in ("gate", "up"))
    y = b.expert_linear(gated(b, gate, up, limit), choice, "ffn_down_exps", count, b.config.dim, each=True)
    y = b.mix(y, b.split(choice, router.used, router.used), router.used)
    return b.add(y, dense(b, h, b.rows("ffn_up_shexp"), "_shexp", shared_limit))


def dense(b: Builder, h: Value, width: int, ending: str, limit: float) -> Value:
    gate, up = b.linear(h, f"ffn_gate{ending}", width), b.linear(h, f"ffn_up{ending}", width)
    return b.linear(gated(b, gate, up, limit), f"ffn_down{ending}", b.config.dim)


def gated(b: Builder, gate: Value, up: Value, limit: float) -> Value:
    """silu(gate) * up, the first no larger than the limit and the second no further than it from zero."""
    if not limit:
        return b.gated(gate, up, "silu")
    if limit < LEAST_LIMIT:
        raise UnsupportedError(
            f"{b.config.arch}: activations are limited to {limit:g}; at least {LEAST_LIMIT} is known"
        )
    return b.mul(b.clamp(b.activate(gate, "silu"), limit), b.clamp(up, limit))
