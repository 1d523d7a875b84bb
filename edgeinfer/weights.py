"""Where weights lie: in the pages of the mapped file, or copied into huge pages, which are read faster.

A page of a file has 4 kB mostly, so that reading a model meets a new page at every few rows, and each costs a walk
through the page tables; huge pages have 2 MB.  Unlike the file's pages the copy cannot be dropped when memory is
short, and no other process shares it."""

import dataclasses
import mmap
import re
from pathlib import Path

import numpy as np

from edgeinfer import machine
from edgeinfer.errors import BackendError, RequestError
from edgeinfer.formats.gguf_tensors import Tensor
from edgeinfer.memory import SHARE, megabytes
from edgeinfer.plan import Plan

KINDS = ("mmap", "huge", "auto")
PAGE = 2 << 20  # bytes of a huge page; a multiple of it suits systems that have smaller ones
BORDER = 64  # a tensor of the copy starts at a multiple of this
OFFERED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
MAPPINGS = Path("/proc/self/smaps")


def check_weights(kind: str) -> None:
    """RequestError for one that is not there."""
    if kind not in KINDS:
        raise RequestError(f"weights is {kind!r}; must be one of {', '.join(KINDS)}")


class Weights:
    """The weights of one model.

    kind: "mmap", the file's pages; "huge", a copy in huge pages, BackendError where memory or the system does not allow
    it; "auto", that copy where the system has huge pages and it takes a quarter of the memory available at most.

    RequestError for another kind."""

    def __init__(self, kind: str) -> None:
        check_weights(kind)
        self._kind = kind
        self._pages: list[HugePages] = []
        self._copied: dict[str, Tensor] = {}

    @property
    def copied_bytes(self) -> int:
        """Of the copies."""
        return sum(pages.size for pages in self._pages)

    @property
    def huge_bytes(self) -> int:
        """Of the copies, what the system has put into huge pages."""
        return sum(pages.huge() for pages in self._pages)

    def place(self, plan: Plan) -> Plan:
        """The plan with its weights where they are to lie.  Weights that several plans name are copied once."""
        missing = [tensor for name, tensor in plan.tensors.items() if name not in self._copied]
        size = sum(_room(tensor) for tensor in missing)
        if missing and self._copies(size):
            self._copy(missing, size)
        reader = self.place(plan.reader) if plan.reader else None
        tensors = {name: self._copied.get(name, tensor) for name, tensor in plan.tensors.items()}
        return dataclasses.replace(plan, tensors=tensors, reader=reader)

    def _copies(self, size: int) -> bool:
        if self._kind == "mmap":
            return False
        available = machine.available_memory()
        if self._kind == "auto":
            return offered() and size * SHARE <= available
        if not offered():
            raise BackendError("weights='huge': this system has no huge pages to give (transparent_hugepage)")
        if size > available:
            raise BackendError(
                f"weights='huge': the copy takes {megabytes(size)} MB and {megabytes(available)} MB are available"
            )
        return True

    def _copy(self, tensors: list[Tensor], size: int) -> None:
        pages, start = HugePages(size), 0
        for tensor in tensors:
            pages.view(start, tensor.nbytes)[:] = tensor.data.reshape(-1)
            self._copied[tensor.name] = tensor.moved(pages, start)
            start += _room(tensor)
        self._pages.append(pages)


class HugePages:
    """Private memory in huge pages, as far as the system has them; a `formats.mapped.Source`."""

    def __init__(self, size: int) -> None:
        self.size = size
        memory = machine.pages(size + PAGE, huge=True)
        start = -memory.ctypes.data % PAGE
        self._data = memory[start : start + size]

    def view(self, start: int, size: int) -> np.ndarray:
        return self._data[start : start + size]

    def check(self) -> None:
        """No file is beneath it."""

    def close(self) -> None:
        """It goes with the last view of it."""

    def huge(self) -> int:
        """Bytes of it in huge pages, as the system has it."""
        inside = False
        for line in machine.lines(MAPPINGS):
            if bounds := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
                inside = int(bounds[1], 16) <= self._data.ctypes.data < int(bounds[2], 16)
            elif inside and line.startswith("AnonHugePages:"):
                return min(self.size, 1024 * int(line.split()[1]))
        return 0


def offered() -> bool:
    """Whether the system gives huge pages to those who ask."""
    setting = " ".join(machine.lines(OFFERED))
    return hasattr(mmap, "MADV_HUGEPAGE") and ("[madvise]" in setting or "[always]" in setting)


def _room(tensor: Tensor) -> int:
    return tensor.nbytes + -tensor.nbytes % BORDER
