"""Step: what ops see of a step; Held: what is kept of a sequence between steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgeinfer.backend import Chunk
from edgeinfer.formats import dequantize
from edgeinfer.formats.gguf import Tensor

Array = npt.NDArray[np.float32]


def parts(x: Array, count: int) -> Array:
    """f32[tokens, count * size] -> f32[tokens, count, size]"""
    return x.reshape(len(x), count, x.shape[1] // count)


def groups(x: Array, size: int) -> Array:
    """f32[tokens, count * size] -> f32[tokens, count, size]"""
    return parts(x, x.shape[1] // size)


class Weights:
    """Tensors as float32, dequantised on first use and kept."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self._kept: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._kept:
            self._kept[name] = self._tensors[name].float32()
        return self._kept[name]

    def whole_numbers(self, name: str) -> npt.NDArray[np.int32]:
        """A table of I32."""
        return self._tensors[name].data.view(np.int32)

    def rows(self, name: str, rows: Sequence[int]) -> Array:
        """Some rows of a table that may be large."""
        return dequantize(self._tensors[name].data[rows], self._tensors[name].type)


@dataclasses.dataclass
class Held:
    """What is kept of a sequence: its length in tokens, and by the name of what needs them, rows of all its tokens.

    States of recurrent ops are kept with the number of tokens they have seen; where that is another than the sequence
    now has, the state is made anew from the rows, so that cutting a sequence never loses anything.  `text` has K and V
    of the text that the sequence answers, by layer.
    """

    length: int = 0
    rows: dict[str, tuple[Array, ...]] = dataclasses.field(default_factory=dict)
    states: dict[str, tuple[int, Any]] = dataclasses.field(default_factory=dict)
    text: dict[int, tuple[Array, Array]] = dataclasses.field(default_factory=dict)

    def append(self, name: str, *new: Array) -> tuple[Array, ...]:
        """The rows of `name` with the new tokens' behind them.  `length` is left to the end of the step."""
        old = self.rows.get(name, new)
        both = zip(old, new, strict=True)
        self.rows[name] = tuple(np.concatenate([x[: self.length], more]) for x, more in both)
        return self.rows[name]

    def advance(self, name: str, state: Any, turn: Callable[..., tuple[Any, Array]], *new: Array) -> Array:
        """The outputs of `turn(state, *row) -> (state, output)` for the new tokens, one after the other.

        `state` is that of an empty sequence.
        """
        rows = self.append(name, *new)
        seen, kept = self.states.get(name, (0, state))
        seen, state = (seen, kept) if seen == self.length else (0, state)
        outputs = []
        for row in zip(*(x[seen:] for x in rows), strict=True):
            state, output = turn(state, *row)
            outputs.append(output)
        self.states[name] = len(rows[0]), state
        return np.stack(outputs[-len(new[0]) :])

    def cut(self, length: int) -> Held:
        rows = {name: tuple(x[:length] for x in kept) for name, kept in self.rows.items()}
        return Held(length, rows, self.states, self.text)


@dataclasses.dataclass(frozen=True)
class Step:
    """What ops see of a step.  The tokens of all chunks lie behind each other: token t has id ids[t]."""

    weights: Weights
    chunks: Sequence[Chunk]
    held: Sequence[Held]  # of each chunk's sequence, as it is before the step

    def ids(self) -> list[int]:
        return [int(i) for chunk in self.chunks for i in chunk.ids]

    def slices(self) -> list[slice]:
        """The tokens of each chunk."""
        ends = np.cumsum([len(chunk.ids) for chunk in self.chunks]).tolist()
        return [slice(end - len(chunk.ids), end) for chunk, end in zip(self.chunks, ends, strict=True)]

    def positions(self) -> npt.NDArray[np.int64]:
        """int[tokens], each within its own sequence."""
        pairs = zip(self.chunks, self.held, strict=True)
        return np.concatenate([held.length + np.arange(len(chunk.ids)) for chunk, held in pairs])

    def each(self, one: Callable[..., Array], *ins: Array) -> Array:
        """one(held, *rows) of each chunk by itself, where rows are the chunk's of `ins`."""
        pairs = zip(self.slices(), self.held, strict=True)
        return np.concatenate([one(held, *(x[rows] for x in ins)) for rows, held in pairs])
