"""Plan: the straight-line list of operations of one forward pass, written down once by an architecture function.

An architecture is plain maths over the verbs of a `Builder`; each verb checks the tensors it uses against the widths
that flow through it and appends an `Op`.  What an op kind computes is defined by `edgeinfer/reference.py`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from edgeinfer import config as model_config
from edgeinfer import models
from edgeinfer.config import Keys, ModelConfig
from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.gguf import GgufFile, Tensor
from edgeinfer.rope import Pairs, Rope, of_model


@dataclasses.dataclass(frozen=True)
class Value:
    """float32[tokens, width] that flows between ops."""

    id: int
    width: int


@dataclasses.dataclass(frozen=True)
class Op:
    """One operation; `weights` are tensor names; docs/design.md has the table of kinds and their attrs."""

    kind: str
    out: Value
    ins: tuple[Value, ...] = ()
    weights: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Plan:
    """`ops` in order of execution, the last one's out the logits; `tensors` are the ones that the ops name."""

    ops: tuple[Op, ...]
    config: ModelConfig
    tensors: Mapping[str, Tensor]


def trace(file: GgufFile, n_ctx: int | None = None) -> Plan:
    """The plan of the model in `file`.

    `n_ctx` is the context of the run in tokens (the model's own if None); it selects LongRoPE's factors and nothing
    else.  FormatError where keys or tensors are missing or do not fit together, UnsupportedError where the architecture
    or a tensor's type is not known.
    """
    keys = model_config.keys_of(file)
    forward = models.find(keys.arch)
    config = model_config.read(file)
    _check_layers(config, file.tensors)
    b = Builder(config, keys, config.context if n_ctx is None else n_ctx)
    logits = forward(b)
    b.finish()
    if logits != b.ops[-1].out or logits.width != config.vocab:
        raise AssertionError(f"models/{config.arch}.py must end with the logits, {config.vocab} wide")
    return Plan(tuple(b.ops), config, {name: file.tensors[name] for op in b.ops for name in op.weights})


def _check_layers(config: ModelConfig, tensors: Mapping[str, Tensor]) -> None:
    numbers = [int(m[1]) for m in (re.match(r"blk\.(\d{1,9})\.", name) for name in tensors) if m]
    layers = 1 + max(numbers, default=-1)
    if layers != config.layers:
        raise FormatError(f"{config.arch}.block_count is {config.layers}, but the file has tensors of {layers} layers")


class Builder:
    """Writes down what an architecture function computes.

    Tensor names are given without ending, and inside `layers()` without `blk.N.`: "attn_q" is blk.3.attn_q.weight.
    """

    def __init__(self, config: ModelConfig, keys: Keys, n_ctx: int) -> None:
        self.config = config
        self.keys = keys
        self.n_ctx = n_ctx
        self.ops: list[Op] = []
        self._tensors = keys.file.tensors
        self._prefix = ""
        self._known: set[str] = set()  # tensors the architecture has a use for
        self._missing: list[str] = []

    def layers(self) -> Iterator[int]:
        """Layer numbers, in order; while one is worked on, names are those of its tensors."""
        for layer in range(self.config.layers):
            self._prefix = f"blk.{layer}."
            yield layer
        self._prefix = ""

    def has(self, name: str) -> bool:
        """Whether the file has a tensor `name`.weight."""
        return self._full(f"{name}.weight") in self._tensors

    # verbs: one op each

    def embed(self, name: str = "token_embd", scale: float = 1.0) -> Value:
        """Rows of a table by token id, times `scale`."""
        width = self.config.dim
        return self._emit("embed", width, (), self._weight(name, self.config.vocab, width), scale=scale)

    def norm(self, x: Value, name: str) -> Value:
        """RMS norm of the whole row: x / sqrt(mean(x^2) + eps) * w."""
        return self._norm(x, name, x.width)

    def head_norm(self, x: Value, name: str) -> Value:
        """RMS norm of each head of key_dim, all with the same weights."""
        return self._norm(x, name, self.config.key_dim)

    def linear(self, x: Value, name: str, width: int) -> Value:
        """x @ w.T, `width` wide, plus `name`.bias where the file has it."""
        weights = self._weight(name, width, x.width)
        if self._full(f"{name}.bias") in self._tensors:
            weights += self._tensor(f"{name}.bias", width)
        return self._emit("linear", width, (x,), weights)

    def split(self, x: Value, start: int, width: int) -> Value:
        """Columns start .. start + width."""
        _expect(0 <= start and start + width <= x.width, f"split {start}..{start + width} of {x.width}")
        return self._emit("split", width, (x,), start=start)

    def rope(self, x: Value, rope: Rope) -> Value:
        """Turn each head of key_dim by its position."""
        head_dim = self.config.key_dim
        _expect(x.width % head_dim == 0 and 2 * len(rope.frequencies) <= head_dim, f"rope of {x.width}")
        return self._emit("rope", x.width, (x,), rope=rope, head_dim=head_dim)

    def attend(self, q: Value, k: Value, v: Value, layer: int, window: int = 0, scale: float | None = None) -> Value:
        """Causal attention over the sequence's K and V of `layer`, which k and v are appended to first.

        A window W lets position i see j where j <= i and i - j < W; 0 lets it see all.  `scale` of the scores is
        1 / sqrt(key_dim) if None.
        """
        c = self.config
        wanted = (c.heads * c.key_dim, c.kv_heads * c.key_dim, c.kv_heads * c.value_dim)
        _expect((q.width, k.width, v.width) == wanted, f"attend over {q.width}, {k.width}, {v.width}, not {wanted}")
        return self._emit(
            "attend",
            c.heads * c.value_dim,
            (q, k, v),
            layer=layer,
            window=window,
            heads=c.heads,
            kv_heads=c.kv_heads,
            key_dim=c.key_dim,
            value_dim=c.value_dim,
            scale=c.key_dim**-0.5 if scale is None else scale,
        )

    def gated(self, gate: Value, up: Value, act: str) -> Value:
        """act(gate) * up; act is "silu" or "gelu", the latter in its tanh form."""
        _expect(gate.width == up.width and act in ("silu", "gelu"), f"gated {act} of {gate.width} and {up.width}")
        return self._emit("gated", up.width, (gate, up), act=act)

    def add(self, x: Value, y: Value) -> Value:
        _expect(x.width == y.width, f"add of {x.width} and {y.width}")
        return self._emit("add", x.width, (x, y))

    def outputs(self, x: Value) -> Value:
        """Only the rows that need logits."""
        return self._emit("outputs", x.width, (x,))

    def softcap(self, x: Value, cap: float) -> Value:
        """cap * tanh(x / cap)"""
        return self._emit("softcap", x.width, (x,), cap=cap)

    # what most architectures share

    def model_rope(self, pairs: Pairs) -> Rope:
        """The RoPE that the file's keys and frequency factors (rope_freqs, or LongRoPE's two) describe."""
        has_long, has_short = self.has("rope_factors_long"), self.has("rope_factors_short")
        if has_long or has_short:
            size = "long" if self.n_ctx > self.config.rope_context else "short"
            return of_model(self.config, pairs, self._factors(f"rope_factors_{size}"))
        factors = self._factors("rope_freqs") if self.has("rope_freqs") else None
        return of_model(self.config, pairs, factors)

    def logits(self, x: Value) -> Value:
        """Output norm and output matrix, which is the token embedding where the file has no other."""
        x = self.norm(self.outputs(x), "output_norm")
        return self.linear(x, "output" if self.has("output") else "token_embd", self.config.vocab)

    def finish(self) -> None:
        """Raise FormatError for tensors that are missing, UnsupportedError for those that would be left out."""
        if self._missing:
            raise FormatError(f"the file has no tensor {_listed(self._missing)}")
        unused = [name for name in self._tensors if name not in self._known]
        if unused:
            raise UnsupportedError(f"edgeinfer's {self.config.arch} has no use for tensor {_listed(unused)}")

    # how a verb is written down

    def _full(self, name: str) -> str:
        self._known.add(self._prefix + name)
        return self._prefix + name

    def _weight(self, name: str, *shape: int) -> tuple[str, ...]:
        return self._tensor(f"{name}.weight", *shape)

    def _tensor(self, name: str, *shape: int) -> tuple[str, ...]:
        """The full name, as a tuple of one; missing ones are collected for `finish` to name all of them."""
        name = self._full(name)
        tensor = self._tensors.get(name)
        if tensor is None:
            self._missing.append(name)
        elif tuple(tensor.shape) != shape:
            has, wanted = (" x ".join(map(str, s)) for s in (tensor.shape, shape))
            raise FormatError(f"tensor {name} is {has}, must be {wanted}")
        elif not tensor.type.computable:
            computable = " ".join(kind.name for kind in GgmlType if kind.computable)
            raise UnsupportedError(
                f"{name} is {tensor.type.name} (ggml type {int(tensor.type)}); computable: {computable}"
            )
        return (name,)

    def _factors(self, name: str) -> np.ndarray | None:
        (full,) = self._weight(name, self.config.rope_dim // 2)
        if full not in self._tensors:
            return None
        factors = self._tensors[full].float32()
        wrong = factors[~((factors > 0) & np.isfinite(factors))]
        if wrong.size:
            raise FormatError(f"tensor {full} holds a factor of {wrong[0]:g}, by which no frequency can be divided")
        return factors

    def _norm(self, x: Value, name: str, size: int) -> Value:
        _expect(x.width % size == 0, f"norm over {size} of {x.width}")
        return self._emit("norm", x.width, (x,), self._weight(name, size), eps=self.config.eps, size=size)

    def _emit(
        self, kind: str, width: int, ins: tuple[Value, ...], weights: tuple[str, ...] = (), **attrs: Any
    ) -> Value:
        out = Value(len(self.ops), width)
        self.ops.append(Op(kind, out, ins, weights, attrs))
        return out


def _expect(true: bool, what: str) -> None:
    """Widths that do not fit are a fault of the architecture file, not of the model file."""
    if not true:
        raise AssertionError(f"an architecture asked for a {what}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
