"""RoPE as config.json describes it, in GGUF's keys and tensors.

The scalings are those of https://github.com/huggingface/transformers/blob/main/src/transformers/modeling_rope_utils.py.
"""

import math
from typing import Any

import numpy as np

from edgeinfer.errors import UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.huggingface.config import Config
from edgeinfer.huggingface.writer import Writer
from edgeinfer.rope import yarn_growth

_UNSCALED = ("default", "mrope", "xdrope", "dynamic")  # dynamic: beyond the model's context only
_BASES = ("rope_theta", "rotary_emb_base", "rotary_base")
_SHARES = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_emb_fraction")


def parameters(config: Config) -> Config:
    """What newer folders have in rope_parameters, perhaps for each kind of layers (then of
    those without a window), and older ones in several places."""
    found: dict[str, Any] = dict(config.part("rope_parameters").values)
    for kind in ("full_attention", "indexed_attention"):
        if isinstance(found.get(kind), dict):
            found = dict(found[kind])
    scaling = config.part("rope_scaling").values
    own = {"rope_type": scaling.get("type"), **scaling}
    for name, value in {**{name: config.values.get(name) for name in (*_BASES, *_SHARES)}, **own}.items():
        if found.get(name) is None:
            found[name] = value
    return Config(found, f"{config.where}: rope_parameters")


def local_base(config: Config) -> float:
    """Of layers with a window."""
    nested = config.part("rope_parameters").part("sliding_attention").number("rope_theta", default=10_000.0)
    return config.number("rope_local_base_freq", "swa_rope_theta", default=nested)


def write_local(w: Writer, head_dim: int, default_share: float = 1.0) -> None:
    """The keys of layers with a window that have a base and a share of their own.  UnsupportedError where these layers
    scale RoPE, too."""
    found = w.config.part("rope_parameters").part("sliding_attention")
    if (kind := found.text("rope_type", default="default")) != "default":
        raise UnsupportedError(f"{found.where}: rope_type is {shown(kind)}; layers with a window have none in GGUF")
    w.key("rope.freq_base_swa", local_base(w.config))
    w.key("rope.dimension_count_swa", int(head_dim * found.number(*_SHARES, default=default_share)))


def base(config: Config) -> float:
    """Of all layers, or of those without a window."""
    return parameters(config).number(*_BASES, default=10_000.0)


def write(w: Writer, head_dim: int, default_share: float = 1.0, pairs: int = 0) -> None:
    """The keys of the dimensions that turn, of the base, and of the scaling; `pairs` have a factor in GGUF, if they are
    more than those that turn."""
    found = parameters(w.config)
    dim = int(head_dim * found.number(*_SHARES, default=default_share))
    w.key("rope.dimension_count", dim)
    w.key("rope.freq_base", base(w.config))
    kind = found.text("rope_type", default="default")
    context = w.config.integer("max_position_embeddings", default=0, most=1 << 31)
    if kind == "linear":
        w.key("rope.scaling.type", "linear")
        w.key("rope.scaling.factor", found.number("factor"))
    elif kind == "yarn":
        _yarn(w, found, context)
    elif kind == "llama3":
        factors = _llama3(found, dim, context)
        w.put("rope_freqs.weight", np.pad(factors, (0, max(0, pairs - len(factors))), constant_values=1))
    elif kind in ("longrope", "su"):
        _longrope(w, found, dim, context)
    elif kind not in _UNSCALED:
        known = " ".join((*_UNSCALED, "linear", "yarn", "llama3", "longrope"))
        raise UnsupportedError(f"{found.where}: rope_type is {shown(kind)}, known are: {known}")


def _yarn(w: Writer, found: Config, context: int) -> None:
    factor = found.number("factor")
    w.key("rope.scaling.type", "yarn")
    w.key("rope.scaling.factor", factor)
    w.key(
        "rope.scaling.original_context_length",
        found.integer("original_max_position_embeddings", default=context, most=1 << 31),
    )
    w.key("rope.scaling.yarn_beta_fast", found.number("beta_fast", default=32.0))
    w.key("rope.scaling.yarn_beta_slow", found.number("beta_slow", default=1.0))
    grown = yarn_growth(factor, 1.0)
    wanted = found.number("attention_factor", default=0.0)
    if not wanted and found.has("mscale") and found.has("mscale_all_dim"):
        wanted = yarn_growth(factor, found.number("mscale")) / yarn_growth(factor, found.number("mscale_all_dim"))
    if wanted and wanted != grown:
        w.key("rope.scaling.attn_factor", wanted / grown)


def _llama3(found: Config, dim: int, context: int) -> np.ndarray:
    """float32 [dim / 2]: divisors of the frequencies; the long waves are divided, the short ones kept."""
    factor, original = found.number("factor"), found.number("original_max_position_embeddings", default=context)
    low, high = found.number("low_freq_factor"), found.number("high_freq_factor")
    waves = 2 * math.pi * found.number(*_BASES, default=10_000.0) ** (np.arange(0, dim, 2) / dim)
    smooth = np.clip((original / waves - low) / (high - low), 0.0, 1.0)
    divisors: np.ndarray = (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)
    return divisors


def _longrope(w: Writer, found: Config, dim: int, context: int) -> None:
    original = w.config.integer("original_max_position_embeddings", default=0) or found.integer(
        "original_max_position_embeddings", default=context
    )
    for size in ("long", "short"):
        factors = found.numbers(f"{size}_factor", count=dim // 2)
        w.put(f"rope_factors_{size}.weight", np.array(factors, np.float32))
    w.key("rope.scaling.original_context_length", original)
    factor = context / original
    grown = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    w.key("rope.scaling.attn_factor", found.number("attention_factor", "long_mscale", default=grown))
