"""Tracer: writes ops down, finds the tensors they name and checks their shapes; the verbs build on it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from edgeinfer.config import Keys, ModelConfig
from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.op import Op, Value

_LARGEST = float(np.finfo(np.float32).max)


class Tracer:
    """Tensor names are given without ending, and inside `layers()` without `blk.N.`: "attn_q" is blk.3.attn_q.weight.

    `config` is that of the whole model, inside `layers()` that of the layer.  `pools`: all rows are wanted, to be
    pooled in the end.
    """

    def __init__(self, config: ModelConfig, keys: Keys, n_ctx: int, pools: bool = False) -> None:
        self.config = config
        self.keys = keys
        self.n_ctx = n_ctx
        self.pools = pools
        self.hidden: Value | None = None  # what the output matrix makes logits of, once it does
        self.ops: list[Op] = []
        self.reader: list[Op] = []  # in models that read a text before they answer it: what does
        self.text: Value | None = None  # the text's last rows there
        self.start = 0  # the token that an answer begins with
        self._tensors = keys.file.tensors
        self._prefix = ""
        self._known: set[str] = set()  # tensors the architecture has a use for
        self._missing: list[str] = []

    @property
    def main_layers(self) -> int:
        """How many layers there are but for the last ones, which predict tokens further ahead where a file has such."""
        return self.config.layers - self.keys.integer("nextn_predict_layers", 0, least=0)

    def layers(self, count: int | None = None) -> Iterator[int]:
        """Layer numbers, in order; while one is worked on, names are those of its tensors and counts are its own.

        Layers past `count`, if given, are not part of the forward pass (they predict tokens further ahead).
        """
        stated = self.config.layers
        self._expect_held("blk", stated, f"{self.config.arch}.block_count")
        yield from self.blocks(range(stated if count is None else count))
        left = tuple(f"blk.{layer}." for layer in range(stated if count is None else count, stated))
        self._known.update(name for name in self._tensors if name.startswith(left) and left)

    def blocks(self, numbers: range, stem: str = "blk") -> Iterator[int]:
        """As `layers`, these only, in a model whose layers are not the file's blocks one by one, or are named
        `stem`.N; those past the file's count are shaped as the last one."""
        whole = self.config
        if stem != "blk":
            self._expect_held(stem, len(numbers), f"the number of {stem} layers")
        for number in numbers:
            self._prefix, self.config = f"{stem}.{number}.", whole.at(min(number, whole.layers - 1))
            yield number
        self._prefix, self.config = "", whole

    def _expect_held(self, stem: str, stated: int, what: str) -> None:
        """FormatError unless the file has tensors of as many layers as are stated: no more are traced than it has."""
        numbers = [int(m[1]) for m in (re.match(rf"{stem}\.(\d{{1,9}})\.", name) for name in self._tensors) if m]
        held = 1 + max(numbers, default=-1)
        if held != stated:
            raise FormatError(f"{what} is {stated}, but the file has tensors of {held} layers")

    def has(self, name: str, ending: str = "weight") -> bool:
        """Whether the file has a tensor `name`.weight."""
        return self._full(f"{name}.{ending}") in self._tensors

    def rows(self, name: str) -> int:
        """How many rows the matrix `name`.weight has; 1 where there is none, which `finish` reports."""
        tensor = self._tensors.get(self._full(f"{name}.weight"))
        return int(tensor.shape[0]) if tensor is not None and tensor.shape else 1

    def ignore(self, *names: str) -> None:
        """These tensors, and their biases, may be there, but nothing depends on them."""
        for name in names:
            self._known.update(f"{self._prefix}{name}.{ending}" for ending in ("weight", "bias"))

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
        return self._tensor(f"{name}.weight", shape)

    def _optional(self, name: str, *shape: int) -> tuple[str, ...]:
        """The full name of a tensor given with its ending, or nothing where the file has none."""
        return self._tensor(name, shape) if self._full(name) in self._tensors else ()

    def _scaled(self, name: str, matrices: int = 1) -> bool:
        """Whether the file has `name`.scale with a number for each of `matrices`, by which their weights are to be
        multiplied, as NVFP4's are.  `name`.input_scale, for activations of 4 bits, is of no use here."""
        self._full(f"{name}.input_scale")
        tensor = self._tensors.get(f"{self._prefix}{name}.scale")
        return tensor is not None and math.prod(tensor.shape) == matrices

    def _tensor(self, name: str, *shapes: tuple[int, ...]) -> tuple[str, ...]:
        """The full name, as a tuple of one; the tensor must have one of the shapes.

        Missing ones are collected for `finish` to name all of them.
        """
        name = self._full(name)
        tensor = self._tensors.get(name)
        if tensor is None:
            self._missing.append(name)
        elif tuple(tensor.shape) not in shapes:
            has, wanted = (" x ".join(map(str, s)) for s in (tensor.shape, shapes[0]))
            raise FormatError(f"tensor {name} is {has}, must be {wanted}")
        elif not tensor.type.computable:
            computable = " ".join(kind.name for kind in GgmlType if kind.computable)
            raise UnsupportedError(
                f"{name} is {tensor.type.name} (ggml type {int(tensor.type)}); computable: {computable}"
            )
        return (name,)

    def _whole_numbers(self, name: str, shape: tuple[int, int], count: int) -> tuple[str, ...]:
        """The full name of a table of I32, each one of 0..count - 1."""
        tensor = self._tensors.get(self._full(name))
        if tensor is None or tuple(tensor.shape) != shape:
            return self._tensor(name, shape)  # which says so
        if tensor.type is not GgmlType.I32:
            raise FormatError(f"tensor {self._full(name)} is {tensor.type.name}, must be I32")
        numbers = tensor.data.view(np.int32)
        wrong = numbers[(numbers < 0) | (numbers >= count)]
        expect(not wrong.size, f"tensor {self._full(name)} with {wrong.min() if wrong.size else 0} of {count}")
        return (self._full(name),)

    def _numbers(self, name: str, *counts: int) -> tuple[str, ...]:
        """The full name of a tensor of any shape that holds one of `counts` numbers."""
        tensor = self._tensors.get(self._full(name))
        shape = () if tensor is None else tuple(tensor.shape)
        return self._tensor(name, shape if math.prod(shape) in counts else counts[:1])

    def _emit(
        self, kind: str, width: int, ins: tuple[Value, ...] = (), weights: tuple[str, ...] = (), **attrs: Any
    ) -> Value:
        for name, value in attrs.items():
            fits = not isinstance(value, float) or abs(value) <= _LARGEST
            expect(fits, f"{kind} with {name} {value}, which is no number of 32 bits")
        out = Value(len(self.ops), width)
        self.ops.append(Op(kind, out, ins, weights, attrs))
        return out


def expect(true: bool, what: str) -> None:
    """Raise FormatError unless true: the file's numbers contradict each other, as `what` says."""
    if not true:
        raise FormatError(f"the model's numbers do not fit together: {what}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(shown(name)[1:-1] for name in names[:3]) + more
