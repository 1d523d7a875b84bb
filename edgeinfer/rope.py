"""Rotary position embedding: the frequencies by which the pairs of a head turn, with every scaling already applied.

A pair turns by position * frequency.  RoPE: https://arxiv.org/abs/2104.09864.  The scalings follow what
llama.cpp computes (`ggml_rope_cache_init` and `rope_yarn` in ggml, the YaRN settings in llama-context.cpp), in float64.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from edgeinfer.config import ModelConfig

Pairs = Literal["adjacent", "halves"]  # pair i of n: dimensions (2i, 2i + 1), or (i, i + n)


@dataclasses.dataclass(frozen=True)
class Rope:
    """How the leading `2 * len(frequencies)` dimensions of every head turn; the rest of the head passes unchanged."""

    frequencies: tuple[float, ...]  # radians per position, one per pair
    scale: float  # multiplies cos and sin
    pairs: Pairs
    stride: int = 1  # positions count from the last multiple of this, as those of a pool of so many do


def plain(dim: int, base: float, pairs: Pairs) -> Rope:
    """Pair i of `dim` / 2 turns base ** (-2i / dim) radians per position."""
    return Rope(tuple(base ** (-2 * i / dim) for i in range(dim // 2)), 1.0, pairs)


def linear(rope: Rope, factor: float) -> Rope:
    """Positions divided by `factor`: https://arxiv.org/abs/2306.15595."""
    return dataclasses.replace(rope, frequencies=tuple(f / factor for f in rope.frequencies))


def divided(rope: Rope, factors: np.ndarray) -> Rope:
    """Each frequency divided by its own factor, [pairs]: Llama 3.1's rope_freqs and LongRoPE's rope_factors."""
    turns = zip(rope.frequencies, factors, strict=True)
    return dataclasses.replace(rope, frequencies=tuple(float(f / np.float64(d)) for f, d in turns))


def yarn(rope: Rope, config: ModelConfig) -> Rope:
    """YaRN, https://arxiv.org/abs/2309.00071: pairs that turn often within `rope_context` positions keep their
    frequency, those that turn seldom are divided by `rope_factor`, a ramp joins them, and cos and sin grow.
    """
    dim, base, factor = 2 * len(rope.frequencies), config.rope_base, config.rope_factor

    def pair_that_turns(times: float) -> float:
        return dim * math.log(config.rope_context / (times * 2 * math.pi)) / (2 * math.log(base))

    fast, slow = config.rope_betas
    low = max(0, math.floor(pair_that_turns(fast)))
    high = min(dim - 1, math.ceil(pair_that_turns(slow)))
    ramp = np.clip((np.arange(dim // 2) - low) / max(0.001, high - low), 0.0, 1.0)
    kept = np.array(rope.frequencies)
    mixed = kept * (1 - ramp) + kept / factor * ramp
    growth = yarn_growth(factor, 1.0) / yarn_growth(factor, config.rope_log_multiplier)
    return Rope(tuple(mixed.tolist()), rope.scale * growth, rope.pairs)


def yarn_growth(factor: float, multiplier: float) -> float:
    """How much larger Q and K are to be for a context `factor` times as long."""
    return 1.0 + 0.1 * multiplier * math.log(max(1.0, factor))


def of_model(config: ModelConfig, pairs: Pairs, factors: np.ndarray | None = None) -> Rope:
    """The model's own RoPE: its base and scaling, and frequency factors, [rope_dim / 2], where it has any."""
    rope = plain(config.rope_dim, config.rope_base, pairs)
    if config.rope_scaling == "yarn":
        rope = yarn(rope, config)
    else:
        rope = linear(rope, config.rope_factor)  # which is 1 where there is no scaling
    if factors is not None:
        rope = divided(rope, factors)
    return dataclasses.replace(rope, scale=rope.scale * config.rope_attn_factor)
