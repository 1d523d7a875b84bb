"""Maple: Qwen3-MoE with positions only in the layers with sliding windows; the experts' activations are limited.

Source: llama.cpp's maple.
"""

import math

from edgeinfer.errors import UnsupportedError
from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.experts import Router

LEAST_LIMIT = 0.5  # where silu is beyond 0.28, as far as it gets below zero


def forward(b: Builder) -> Value:
    c = b.config
    window, local = b.keys.integer("attention.sliding_window"), b.sliding()
    limits, rope = b.keys.numbers("swiglu_clamp_exp", c.layers), b.model_rope("halves", local=True)
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        q, k = (b.rope(q, rope), b.rope(k, rope)) if local[layer] else (q, k)
        h = b.attend(q, k, v, layer, window if local[layer] else 0)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, experts(b, b.norm(x, "ffn_norm"), limits[layer], b.router(normalise=True)))
    return b.logits(x)


def experts(b: Builder, h: Value, limit: float, router: Router) -> Value:
    """Of silu(gate) * up, the gate no larger than the limit and up no further than it from zero."""
    scores = b.linear(h, "ffn_gate_inp", b.keys.integer("expert_count"))
    return chosen_experts(b, h, b.route(scores, router), limit)


def chosen_experts(b: Builder, h: Value, choice: Value, limit: float) -> Value:
    count, width, used = b.keys.integer("expert_count"), b.expert_width(), choice.width // 2
    gate, up = (b.expert_linear(h, choice, f"ffn_{name}_exps", count, width) for name in ("gate", "up"))
    y = b.expert_linear(limited(b, gate, up, limit), choice, "ffn_down_exps", count, b.config.dim, each=True)
    return b.mix(y, b.split(choice, used, used), used)


def limited(b: Builder, gate: Value, up: Value, limit: float) -> Value:
    if not limit:
        return b.gated(gate, up, "silu")
    if limit < LEAST_LIMIT:
        raise UnsupportedError(
            f"{b.config.arch}: activations are limited to {limit:g}; at least {LEAST_LIMIT} is known"
        )
    gate = b.clamp(b.activate(gate, "silu"), limit / (1 + math.exp(-limit)))  # silu grows there
    return b.mul(gate, b.clamp(up, limit))


def dense(b: Builder, h: Value, width: int, ending: str, limit: float) -> Value:
    gate, up = b.linear(h, f"ffn_gate{ending}", width), b.linear(h, f"ffn_up{ending}", width)
    return b.linear(limited(b, gate, up, limit), f"ffn_down{ending}", b.config.dim)
