"""The coarse view of an output matrix (`simd_kernels/screen.py`): when it is worthwhile, and how it comes to be.

It is built while tokens are generated, some rows after each step, once the activations of SEEN steps have shown in
which directions they lie.  Directions seen once serve any text, only the bounds are less close: they are never wrong.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Mapping
from threading import Thread

import numpy as np

from edgeinfer import cost, machine
from edgeinfer.lowering.nodes import Boards, parts
from edgeinfer.plan import Plan
from edgeinfer.simd_kernels import layout, record
from edgeinfer.simd_kernels.layout import DIRECTIONS
from edgeinfer.simd_kernels.workers import Program

SEEN = 8  # steps
STEPS = 6  # over which the building is spread
LEAST_GAIN = 1 / 20  # of the bytes of weights read for a token, for a view to be worthwhile
SHARE = 8  # it takes at most this fraction of the memory available
BLOCK = 32
PAGE = 4096
CLAIM = 64  # rows
Run = Callable[[Program], None]  # has the workers run it
KERNELS = ("screen.view", "screen.widen", "screen.bounds", "quantise.fine")


def view_bytes(plan: Plan) -> int:
    """Memory of the view; 0 where none is worthwhile."""
    if plan.ops[-1].kind != "linear" or plan.pooling:
        return 0
    tensor = plan.tensors[plan.ops[-1].weights[0]]
    rows, cols = tensor.shape
    size = matrix_bytes(rows, cols)
    saved = tensor.nbytes - size
    can = cols % BLOCK == 0 and layout.view_scratch(cols) <= layout.BAND_BYTES  # which scratch has at least
    return size if can and saved >= LEAST_GAIN * cost.weight_bytes(plan) else 0


def matrix_bytes(rows: int, cols: int) -> int:
    return -(-rows // layout.VIEW_ROWS) * layout.panel_bytes(cols)


def operation(form: record.Record, kernel: int, count: int, board: Mapping[str, int], **fields: int) -> np.ndarray:
    """A record after which the workers wait for each other; count: address of the count of rows."""
    numbers = form.write(kernel=kernel, wait=1, count=count, chain=0, **board, **fields)
    return np.array(numbers + [0] * (record.OP_FIELDS - len(numbers)), np.int64)


class Screen:
    """The view of the matrix of a linear layer, and the records that use it."""

    def __init__(self, linear: Mapping[str, int], x: int, kernels: Mapping[str, int]) -> None:
        """linear: fields of the layer's record; x: address of its activations, f32[cols]."""
        self.ready = False
        self._linear, self._kernels = linear, kernels
        cols, rows = linear["cols"], linear["rows"]
        self._x = np.ctypeslib.as_array((ctypes.c_float * cols).from_address(x))
        self._seen: list[np.ndarray] = []
        self._counter = layout.aligned(64).view(np.int64)
        self._directions = np.zeros((DIRECTIONS, cols), np.float32)
        self._coded = layout.aligned(cols // BLOCK * layout.DIRECTION_BYTES)
        self._wide = layout.aligned(4 * (cols + BLOCK))
        self._codes = layout.aligned(layout.activation_bytes(cols + BLOCK, fine=True))
        self.size = matrix_bytes(rows, cols)
        self._view = machine.pages(self.size, True)  # takes no memory before it is written
        # To give new pages takes the system as long as three steps, in virtual machines ten; no step is to wait for it.
        self._touch = Thread(target=self._view[::PAGE].fill, args=(0,), daemon=True)
        self._built = 0
        self.view = {
            "view": self._view.ctypes.data,
            "panel_bytes": layout.panel_bytes(cols),
            "cols": cols,
            "rows": rows,
        }

    def records(self, boards: Boards, **scores: int) -> list[np.ndarray]:
        """The activations as the view takes them, and its product with them; scores: where it goes, in what chunks."""
        cols, count, wide = self._linear["cols"], self._linear["count"], self._wide.ctypes.data
        fields = {"cols": cols, "directions": self._directions.ctypes.data}
        places = {"x": self._x.ctypes.data, "out": wide}
        widen = operation(record.WIDEN, self._kernels["screen.widen"], count, boards.of(0), **places, **fields)
        codes = {"x": wide, "x_stride": 0, "out": self._codes.ctypes.data, "out_stride": 0}
        quantise = operation(
            record.QUANTISE, self._kernels["quantise.fine"], count, boards.of(0), width=cols + BLOCK, groups=1, **codes
        )
        matrix = self.view | {"x": self._codes.ctypes.data, "bias": self._linear["bias"]}
        board = boards.of(parts(self._linear["rows"], scores["chunk"]))
        bounds = operation(record.BOUNDS, self._kernels["screen.bounds"], count, board, **matrix, **scores)
        return [widen, quantise, bounds]

    def after_step(self, run: Run) -> None:
        """Go on with what is to be done before the view is there."""
        if self.ready:
            return
        if len(self._seen) == SEEN:
            if not self._touch.is_alive():
                self._build(run)
            return
        if not self._seen:
            with contextlib.suppress(RuntimeError):  # of a system that gives no threads: what builds it waits
                self._touch.start()
        self._seen.append(self._x.copy())
        if len(self._seen) == SEEN:
            self._directions[:], self._coded[:] = coded(directions(np.array(self._seen)))

    def _build(self, run: Run) -> None:
        rows, linear = self._linear["rows"], self._linear
        stop = min(rows, self._built + layout.up(-(-rows // STEPS), CLAIM))
        self._counter[0] = 0
        matrix = {name: linear[name] for name in ("w", "row_bytes", "group", "unpack")}
        places = {"directions": self._coded.ctypes.data, "counter": self._counter.ctypes.data}
        ends = {"first": self._built, "rows": stop, "chunk": CLAIM}
        work = operation(
            record.VIEW,
            self._kernels["screen.view"],
            linear["count"],
            record.NO_BOARD,
            **self.view | matrix | places | ends,
        )
        run(Program(work[None]))
        self._built = stop
        self.ready = stop == rows


def directions(seen: np.ndarray) -> np.ndarray:
    """Orthonormal directions f32[DIRECTIONS, cols] in which rows f32[n, cols] mostly lie: the first right singular
    vectors of these rows at length 1, and zeros where they are fewer."""
    sizes = np.linalg.norm(seen.astype(np.float64), axis=1, keepdims=True)
    _, _, found = np.linalg.svd(seen / np.maximum(sizes, 1e-30), full_matrices=False)
    out = np.zeros((DIRECTIONS, seen.shape[1]), np.float32)
    out[: len(found)] = found[:DIRECTIONS]
    return out


def coded(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Directions f32[DIRECTIONS, cols] as 8-bit codes with a scale for each 32 columns: as f32 again, and as
    `screen.view` takes them, u8[bytes]: of each 32 columns codes i8[DIRECTIONS, 32], their sums times -128
    i32[DIRECTIONS], scales f32[DIRECTIONS]."""
    blocks = found.reshape(DIRECTIONS, -1, BLOCK).swapaxes(0, 1)
    scales = (np.abs(blocks).max(-1, keepdims=True) / 127).astype(np.float32)
    codes = np.rint(blocks / np.where(scales, scales, 1)).astype(np.int8)
    sums = -128 * codes.sum(-1, dtype=np.int32)
    parts = [np.ascontiguousarray(part).view(np.uint8).reshape(len(codes), -1) for part in (codes, sums, scales)]
    return (codes * scales).swapaxes(0, 1).reshape(found.shape), np.concatenate(parts, 1).reshape(-1)


def fits(plan: Plan) -> bool:
    """Whether a view is worthwhile and memory plainly allows it."""
    size = view_bytes(plan)
    return 0 < size * SHARE <= machine.available_memory()
