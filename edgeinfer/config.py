"""ModelConfig: a model's numbers, read once from the GGUF metadata and checked against each other."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.formats.gguf import GgufFile

MAX_LAYERS = 1024
MAX_WIDTH = 2**24  # of any vector or table in a model; a product of a few stays exact everywhere
MAX_HEAD_DIM = 2**14  # RoPE has a frequency for each pair, made before the tensors' shapes are looked at
MAX_HEADS = 2**14
MAX_CONTEXT = 2**31 - 1  # positions are int32
UNSTATED_CONTEXT = 2048  # taken when the file says 0, which means that it does not know
MIN_ROPE_BASE = 2.0  # models have 10,000 and more; at 1 all pairs would turn alike
YARN_BETA_FAST, YARN_BETA_SLOW = 32.0, 1.0  # turns within the original context, where the file does not say
MIN_BETA = 1e-3
MAX_ATTN_FACTOR = 1e6  # models have some 1.2; cos and sin times it stay numbers
RECURRENT = ("ssm.conv_kernel", "wkv.head_size")  # keys of models that may have layers without attention
SCALINGS = ("none", "linear", "yarn", "longrope")


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The numbers every architecture has; what only one of them has is read in its own file through `Keys`.

    GGUF's names: `layers` is block_count, `dim` embedding_length, `ff_dim` feed_forward_length (width inside the
    feed-forward), `context` context_length.  Where heads, kv_heads and ff_dim differ between layers these are the
    largest, and `at(layer)` has that layer's; `heads` is a multiple of `kv_heads`.  They are 0 where a layer, or a
    whole recurrent model, does without.
    """

    arch: str
    layers: int
    dim: int
    heads: int
    kv_heads: int
    key_dim: int  # of one head
    value_dim: int  # of one head
    ff_dim: int
    context: int  # tokens the model was made for
    vocab: int
    eps: float  # of the norms
    rope_dim: int  # leading dimensions of each head that turn, an even number
    rope_base: float
    rope_scaling: str  # one of SCALINGS
    rope_factor: float  # positions are divided by it
    rope_context: int  # tokens of the training before the context was extended
    rope_attn_factor: float  # multiplies cos and sin
    rope_betas: tuple[float, float]  # YaRN: turns within rope_context; above the first kept, below the second divided
    rope_log_multiplier: float  # YaRN's mscale_all_dim; 0 where there is none
    counts: tuple[tuple[int, int, int], ...]  # heads, kv_heads, ff_dim of each layer

    def at(self, layer: int) -> ModelConfig:
        """The config with the counts of one layer."""
        heads, kv_heads, ff_dim = self.counts[layer]
        return dataclasses.replace(self, heads=heads, kv_heads=kv_heads, ff_dim=ff_dim)


@dataclasses.dataclass(frozen=True)
class Keys:
    """The metadata under the architecture's prefix: `llama.rope.freq_base` is key `rope.freq_base` here.

    A key without a default must be there.  Every reader raises FormatError naming the key, what it holds and what it
    may hold.
    """

    file: GgufFile
    arch: str

    def has(self, key: str) -> bool:
        return f"{self.arch}.{key}" in self.file.metadata

    def integer(self, key: str, default: int | None = None, least: int = 1, most: int = MAX_WIDTH) -> int:
        """An integer in least..most, as the default must be; one per layer will do where they are all equal."""
        name = f"{self.arch}.{key}"
        if default is not None and not self.has(key):
            value = default
        elif isinstance(self.file.metadata.get(name), np.ndarray):
            values: set[int] = set(self.file.array(name, int).tolist())
            if len(values) != 1:
                raise UnsupportedError(f"{name} differs between layers, which edgeinfer cannot run yet")
            (value,) = values
        else:
            value = self.file.get(name, int)
        if not least <= value <= most:
            raise FormatError(f"{name} is {value}, must be in {least}..{most}")
        return value

    def integers(
        self, key: str, layers: int, default: int | None = None, least: int = 1, more: bool = False
    ) -> tuple[int, ...]:
        """One integer for each layer, from an array or one number for all; an array may hold 0 for layers without, and
        `more` for layers that the file does not have."""
        name = f"{self.arch}.{key}"
        if not isinstance(self.file.metadata.get(name), np.ndarray):
            return (self.integer(key, default, least),) * layers
        return tuple(self._array(name, layers, int, least=0, more=more))

    def numbers(self, key: str, layers: int) -> tuple[float, ...]:
        """One finite number for each layer."""
        return tuple(self._array(f"{self.arch}.{key}", layers, float))

    def flags(self, key: str, layers: int) -> tuple[bool, ...]:
        """One flag for each layer."""
        return tuple(self._array(f"{self.arch}.{key}", layers, bool))

    def flag(self, key: str, default: bool | None = None) -> bool:
        if default is not None and not self.has(key):
            return default
        return bool(self.file.get(f"{self.arch}.{key}", bool))

    def seeing(self) -> bool:
        """Whether RoPE has sections for the axes of pictures, as in files of models that also see."""
        key = "rope.dimension_sections"
        return self.has(key) and min(self.file.array(f"{self.arch}.{key}", int)[:2].tolist(), default=0) > 0

    def _array(self, name: str, layers: int, kind: type, least: float = -math.inf, more: bool = False) -> list[Any]:
        values: list[Any] = self.file.array(name, kind).tolist()
        values = values[:layers] if more else values
        if len(values) != layers:
            raise FormatError(f"{name} has {len(values)} numbers for {layers} layers")
        wrong = [value for value in values if not (math.isfinite(value) and least <= value <= MAX_WIDTH)]
        if wrong:
            raise FormatError(f"{name} holds {wrong[0]:g}, must be finite, at least {least:g} and at most {MAX_WIDTH}")
        return values

    def number(self, key: str, default: float | None = None, least: float = 0.0, most: float = math.inf) -> float:
        """A finite number in least..most."""
        if default is not None and not self.has(key):
            return default
        value = float(self.file.get(f"{self.arch}.{key}", float))
        if not (math.isfinite(value) and least <= value <= most):
            above = "" if most == math.inf else f" and at most {most:g}"
            raise FormatError(f"{self.arch}.{key} is {value:g}, must be a finite number of at least {least:g}{above}")
        return value

    def turning(self, key: str, default: int, head_dim: int) -> int:
        """How many dimensions of a head RoPE turns: an even number, as it turns pairs."""
        dim = self.integer(key, default, least=0, most=head_dim)
        if dim % 2:
            raise FormatError(f"{self.arch}: RoPE turns pairs, but {dim} dimensions of each head are to turn")
        return dim

    def choice(self, key: str, default: str, known: tuple[str, ...]) -> str:
        """One of `known`; UnsupportedError for any other string."""
        value = str(self.file.get(f"{self.arch}.{key}", str, default))
        if value not in known:
            raise UnsupportedError(f"{self.arch}.{key} is {shown(value)}, known are: {' '.join(known)}")
        return value


def keys_of(file: GgufFile) -> Keys:
    """The keys of the file's own architecture."""
    return Keys(file, str(file.get("general.architecture", str)))


def read(file: GgufFile) -> ModelConfig:
    """The config of `file`.  FormatError where a number is missing, of the wrong type, or does not fit the others."""
    keys = keys_of(file)
    dim = keys.integer("embedding_length")
    layers = keys.integer("block_count", most=MAX_LAYERS)
    counts = _counts(keys, layers)
    heads, kv_heads, ff_dim = (max(column) for column in zip(*counts, strict=True))
    if heads and dim % heads and not keys.has("attention.key_length"):
        raise FormatError(f"{keys.arch}.embedding_length, {dim}, is not a multiple of attention.head_count, {heads}")
    least, head_dim = (1, dim // heads) if heads else (0, 0)
    key_dim = keys.integer("attention.key_length", head_dim, least, MAX_HEAD_DIM)
    context = keys.integer("context_length", least=0, most=MAX_CONTEXT) or UNSTATED_CONTEXT
    scaling = keys.choice("rope.scaling.type", "linear", SCALINGS)
    return ModelConfig(
        arch=keys.arch,
        layers=layers,
        dim=dim,
        heads=heads,
        kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=keys.integer("attention.value_length", head_dim, least, MAX_HEAD_DIM),
        ff_dim=ff_dim,
        context=context,
        vocab=_vocab(file),
        eps=_eps(keys),
        rope_dim=keys.turning("rope.dimension_count", key_dim, key_dim),
        rope_base=keys.number("rope.freq_base", 10_000.0, least=MIN_ROPE_BASE),
        rope_scaling=scaling,
        rope_factor=_rope_factor(keys, scaling),
        rope_context=keys.integer("rope.scaling.original_context_length", 0, least=0, most=MAX_CONTEXT) or context,
        rope_attn_factor=keys.number("rope.scaling.attn_factor", 1.0, most=MAX_ATTN_FACTOR),
        rope_betas=(
            keys.number("rope.scaling.yarn_beta_fast", YARN_BETA_FAST, least=MIN_BETA),
            keys.number("rope.scaling.yarn_beta_slow", YARN_BETA_SLOW, least=MIN_BETA),
        ),
        rope_log_multiplier=keys.number("rope.scaling.yarn_log_multiplier", 0.0),
        counts=counts,
    )


def _counts(keys: Keys, layers: int) -> tuple[tuple[int, int, int], ...]:
    """Heads, kv heads and width of the feed-forward of each layer.  Only recurrent models may do without them."""
    least = 0 if any(map(keys.has, RECURRENT)) else 1
    heads = keys.integers("attention.head_count", layers, least=least)
    if max(heads) > MAX_HEADS:
        raise FormatError(f"{keys.arch}.attention.head_count is {max(heads)}, must be in {least}..{MAX_HEADS}")
    kv_heads = keys.integers("attention.head_count_kv", layers, max(heads), least)
    if not keys.has("attention.head_count_kv"):
        kv_heads = heads
    for all_heads, groups in zip(heads, kv_heads, strict=True):
        if groups and all_heads % groups:
            stem = f"{keys.arch}.attention.head_count"
            raise FormatError(f"{stem}, {all_heads}, is not a multiple of head_count_kv, {groups}")
    without_dense = not least or keys.has("expert_feed_forward_length")  # all layers may have experts
    ff_dims = keys.integers("feed_forward_length", layers, *((0, 0) if without_dense else (None, 1)))
    return tuple(zip(heads, kv_heads, ff_dims, strict=True))


def _eps(keys: Keys) -> float:
    """RMS norms and layer norms have keys of their own; no model has both."""
    layer_norm = "attention.layer_norm_epsilon"
    rms_norm = "attention.layer_norm_rms_epsilon"
    return keys.number(layer_norm if keys.has(layer_norm) and not keys.has(rms_norm) else rms_norm)


def _rope_factor(keys: Keys, scaling: str) -> float:
    """Files from before rope.scaling.* have rope.scale_linear; in both 0 means no scaling, as in llama.cpp."""
    key = "rope.scaling.factor" if keys.has("rope.scaling.factor") else "rope.scale_linear"
    factor = keys.number(key, 1.0)
    return 1.0 if scaling == "none" else factor or 1.0


def _vocab(file: GgufFile) -> int:
    """Rows of the token embedding, of which there must be as many as tokens."""
    table = file.tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise FormatError("the file has no tensor token_embd.weight of the form tokens x embedding_length")
    rows = int(table.shape[0])
    tokens = file.count("tokenizer.ggml.tokens", str)
    if tokens != rows:
        raise FormatError(f"tokenizer.ggml.tokens holds {tokens} tokens but token_embd.weight has {rows} rows")
    return rows
