"""One op by itself, on arrays and weights given as lists."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from edgeinfer.backend import Chunk
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.plan import Op, Value
from edgeinfer.reference_ops import OPS
from edgeinfer.reference_ops.step import Held, Step, Weights


@dataclasses.dataclass
class Given:
    """A tensor of F32."""

    values: np.ndarray
    type: GgmlType = GgmlType.F32

    @property
    def data(self) -> np.ndarray:
        return self.float32().view(np.uint8)

    def float32(self) -> np.ndarray:
        return np.array(self.values, np.float32)


def run(kind: str, *ins: Any, weights=(), width=None, chunks=((1, 1),), held=None, **attrs: Any) -> list[list[float]]:
    """One op on `ins`.  `chunks`: (tokens, outputs) of each, in sequences of their own; those are empty if None."""
    tensors = {str(i): Given(w) for i, w in enumerate(weights)}
    step = Step(
        Weights(tensors),
        [Chunk(i, range(tokens), n) for i, (tokens, n) in enumerate(chunks)],
        [Held() for _ in chunks] if held is None else held,
    )
    arrays = [np.array(x, np.float32) for x in ins]
    width = arrays[0].shape[1] if width is None else width
    op = Op(kind, Value(9, width), tuple(Value(i, x.shape[1]) for i, x in enumerate(arrays)), tuple(tensors), attrs)
    return OPS[kind](op, step, *arrays).tolist()
