"""Kernels as functions: built for a tier, linked into this process, called with arrays or numbers.

Arrays that kernels read or write are laid at the very end of a mapping (`guarded`): one byte too far ends the process.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import pathlib
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from edgeinfer.simd_kernels import compile, cpu, pack, record

TIERS = [tier for tier in cpu.TIERS if not cpu.missing(tier, cpu.host_features())]  # what can be executed here
PAGE = mmap.PAGESIZE
NO_STEP = np.zeros(len(record.STEP.names), np.int64)  # the record of a step that says nothing


def guarded(array: np.ndarray) -> np.ndarray:
    """A copy whose last byte is that of a page which no readable page follows (on Linux; a plain copy elsewhere)."""
    if sys.platform != "linux":
        return array.copy()
    size = -(-array.nbytes // PAGE) * PAGE
    memory = np.frombuffer(mmap.mmap(-1, size + PAGE), np.uint8)
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(memory.ctypes.data + size), PAGE, 0):
        raise OSError("mprotect failed")
    out = memory[size - array.nbytes : size].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def address(x: Any) -> Any:
    return x.ctypes.data if isinstance(x, np.ndarray) else x


def call(function: int, *args: np.ndarray | int) -> None:
    """Call the kernel at this address; arrays go as their addresses."""
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(args))(function)(*map(address, args))


class Kernels:
    """The kernels of one tier; each is built when first asked for."""

    def __init__(self, tier: cpu.Tier, folder: pathlib.Path) -> None:
        self.tier, self.folder = tier, folder
        self._own = pack.Linked(tier)
        self._numbers = itertools.count()

    def address(self, name: str) -> int:
        return pack.load([name], self.tier, self.folder)[name]

    def call(self, name: str, *args: np.ndarray | int) -> None:
        """Call a kernel of the table."""
        call(self.address(name), *args)

    def build(self, arguments: int, body: Callable[..., None]) -> int:
        """The address of a kernel that only a test has."""
        name = f"test{next(self._numbers)}"
        text = compile.module_text(name, arguments, body, self.tier)
        self._own.link({name: compile.object_code(text, compile.target_machine(self.tier))})
        return self._own.addresses[name]

    def operate(
        self,
        name: str,
        form: record.Record,
        count: int,
        threads: int = 1,
        step: Any = NO_STEP,
        together: bool = False,
        **fields: Any,
    ) -> None:
        """Run an operation as each of `threads` workers in turn, or together.  Strides not given follow from the
        arrays."""
        counted = np.array([count])
        op = write(form, count=counted, **fields)
        with ThreadPoolExecutor(threads if together else 1) as pool:
            list(pool.map(lambda thread: self.call(name, op, step, thread, threads), range(threads)))


def write(form: record.Record, **fields: Any) -> np.ndarray:
    """A record as i64[fields]; what is not given is 0, but a stride that is that of its array."""
    numbers: dict[str, Any] = {name: 0.0 if name.endswith("_f32") else 0 for name in form.names}
    for name, value in fields.items():
        if f"{name}_stride" in numbers and isinstance(value, np.ndarray):
            numbers[f"{name}_stride"] = value.strides[0]
        numbers[name] = address(value)
    return np.array(form.write(**numbers), np.int64)


def padded_rows(x: np.ndarray, spare: int = 5) -> np.ndarray:
    """A view equal to `x` [rows, cols] of guarded memory with `spare` numbers between its rows, which are NaN."""
    rows, cols = x.shape
    memory = np.full(rows * (cols + spare) - spare, np.nan, np.float32)
    out = np.lib.stride_tricks.as_strided(guarded(memory), x.shape, (4 * (cols + spare), 4))
    out[:] = x
    return out


def between_rows(view: np.ndarray) -> np.ndarray:
    """The spare numbers between the rows that `padded_rows` has made, f32[rows - 1, spare]."""
    rows, cols = view.shape
    return np.lib.stride_tricks.as_strided(view, (rows - 1, view.strides[0] // 4), view.strides)[:, cols:]


def computed(kernels: Kernels, formula: Callable[..., Any], *args: np.ndarray | int, size: int = 8) -> np.ndarray:
    """uint8[size]: what `formula(e, *arguments)` is as a value."""
    out = guarded(np.zeros(size, np.uint8))
    call(kernels.build(len(args) + 1, lambda e, at, *more: e.store(formula(e, *more), at)), out, *args)
    return out
