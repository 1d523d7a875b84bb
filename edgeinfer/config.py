"""ModelConfig: a model's numbers, read once from the GGUF metadata and checked against each other."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats.gguf import GgufFile

MAX_LAYERS = 1024
MAX_WIDTH = 2**24  # of any vector or table in a model; a product of a few stays exact everywhere
MAX_HEAD_DIM = 2**14  # RoPE has a frequency for each pair, made before the tensors' shapes are looked at
MAX_CONTEXT = 2**31 - 1  # positions are int32
UNSTATED_CONTEXT = 2048  # taken when the file says 0, which means that it does not know
MIN_ROPE_BASE = 2.0  # models have 10,000 and more; at 1 all pairs would turn alike
SCALINGS = ("none", "linear", "yarn", "longrope")


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The numbers every architecture has; what only one of them has is read in its own file through `Keys`.

    GGUF's names: `layers` is block_count, `dim` embedding_length, `ff_dim` feed_forward_length (width inside the
    feed-forward), `context` context_length.  Counts are at least 1 and `heads` is a multiple of `kv_heads`.
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
    eps: float  # of the RMS norms
    rope_dim: int  # leading dimensions of each head that turn, an even number
    rope_base: float
    rope_scaling: str  # one of SCALINGS
    rope_factor: float  # positions are divided by it
    rope_context: int  # tokens of the training before the context was extended
    rope_attn_factor: float  # multiplies cos and sin


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

    def number(self, key: str, default: float | None = None, least: float = 0.0) -> float:
        """A finite number not below `least`."""
        if default is not None and not self.has(key):
            return default
        value = float(self.file.get(f"{self.arch}.{key}", float))
        if not (math.isfinite(value) and value >= least):
            raise FormatError(f"{self.arch}.{key} is {value:g}, must be a finite number of at least {least:g}")
        return value

    def choice(self, key: str, default: str, known: tuple[str, ...]) -> str:
        """One of `known`; UnsupportedError for any other string."""
        value = str(self.file.get(f"{self.arch}.{key}", str, default))
        if value not in known:
            raise UnsupportedError(f"{self.arch}.{key} is {value!r}, known are: {' '.join(known)}")
        return value


def keys_of(file: GgufFile) -> Keys:
    """The keys of the file's own architecture."""
    return Keys(file, str(file.get("general.architecture", str)))


def read(file: GgufFile) -> ModelConfig:
    """The config of `file`.  FormatError where a number is missing, of the wrong type, or does not fit the others."""
    keys = keys_of(file)
    heads = keys.integer("attention.head_count")
    kv_heads = keys.integer("attention.head_count_kv", heads)
    dim = keys.integer("embedding_length")
    if heads % kv_heads:
        raise FormatError(f"{keys.arch}.attention.head_count, {heads}, is not a multiple of head_count_kv, {kv_heads}")
    if dim % heads and not keys.has("attention.key_length"):
        raise FormatError(f"{keys.arch}.embedding_length, {dim}, is not a multiple of attention.head_count, {heads}")
    key_dim = keys.integer("attention.key_length", dim // heads, most=MAX_HEAD_DIM)
    context = keys.integer("context_length", least=0, most=MAX_CONTEXT) or UNSTATED_CONTEXT
    scaling = keys.choice("rope.scaling.type", "linear", SCALINGS)
    return ModelConfig(
        arch=keys.arch,
        layers=keys.integer("block_count", most=MAX_LAYERS),
        dim=dim,
        heads=heads,
        kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=keys.integer("attention.value_length", dim // heads, most=MAX_HEAD_DIM),
        ff_dim=keys.integer("feed_forward_length"),
        context=context,
        vocab=_vocab(file),
        eps=keys.number("attention.layer_norm_rms_epsilon"),
        rope_dim=_rope_dim(keys, key_dim),
        rope_base=keys.number("rope.freq_base", 10_000.0, least=MIN_ROPE_BASE),
        rope_scaling=scaling,
        rope_factor=_rope_factor(keys, scaling),
        rope_context=keys.integer("rope.scaling.original_context_length", 0, least=0, most=MAX_CONTEXT) or context,
        rope_attn_factor=keys.number("rope.scaling.attn_factor", 1.0),
    )


def _rope_dim(keys: Keys, key_dim: int) -> int:
    dim = keys.integer("rope.dimension_count", key_dim, most=key_dim)
    if dim % 2:
        raise FormatError(f"{keys.arch}: RoPE turns pairs, but {dim} dimensions of each head are to turn")
    return dim


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
    tokens = len(file.strings("tokenizer.ggml.tokens"))
    if tokens != rows:
        raise FormatError(f"tokenizer.ggml.tokens holds {tokens} tokens but token_embd.weight has {rows} rows")
    return rows
