"""A file mapped into memory, read-only: its pages come from the disk when touched and are shared between processes."""

import contextlib
import ctypes
import mmap
import os
import stat
import sys
import threading
from typing import Protocol

import numpy as np

from edgeinfer.errors import FormatError, RequestError
from edgeinfer.formats.watched import Watch

MAPS = np.zeros((1024, 3), np.int64)  # start and size of maps of this process, and whether one's pages were lost
_free = list(range(len(MAPS)))
_POPULATE_READ = 22  # of Linux's madvise, from 5.14 on
_AT_A_TIME = 8 << 20  # bytes; the system lets nobody change this process's memory map meanwhile


class Source(Protocol):
    """Bytes that are looked at by place: those of a mapped file, or of one that is made as it is looked at."""

    size: int

    def view(self, start: int, size: int) -> np.ndarray: ...
    def check(self) -> None: ...
    def close(self) -> None: ...


def is_regular(path: str) -> bool:
    """Whether it may be opened: a pipe would wait for its other end.  OSError where there is no such file."""
    return stat.S_ISREG(os.stat(path).st_mode)


class Mapped:
    """The bytes of a file that is not empty.  FormatError where `path` is no such file."""

    def __init__(self, path: str) -> None:
        try:
            if not is_regular(path):
                raise FormatError("is a directory" if os.path.isdir(path) else "is not a regular file")
            with open(path, "rb") as file:
                self.size = os.fstat(file.fileno()).st_size
                if not self.size:
                    raise FormatError("the file is empty")
                pages = _Pages(file.fileno(), self.size)
        except (OSError, ValueError) as error:  # ValueError: the path holds a null byte
            raise FormatError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
        self._pages: _Pages | None = pages
        self._data: np.ndarray | None = np.frombuffer(pages, np.uint8)

    def view(self, start: int, size: int) -> np.ndarray:
        """uint8 [size], read-only, of the file itself.  RequestError after `close`, else as `check`."""
        if self._data is None:
            raise RequestError("the file is closed")
        self.check()
        return self._data[start : start + size]

    def check(self) -> None:
        """FormatError if the file has become shorter, was written to, or could not be read.  To be asked before its
        pages are used, for the system kills (SIGBUS) a process that touches a page behind the end, and after: where
        `simd_kernels.guard` prevents that, zeros were read."""
        if (pages := self._pages) is not None and (fault := pages.fault()):
            raise FormatError(f"the file {fault} while it was in use: load it again")

    def populate(self) -> None:
        """Has the system map all pages at once, where it can: to be met one by one they take several times as long.

        For a thread beside others: the interpreter's lock is free meanwhile.  Ends early after `close`."""
        if sys.platform != "linux" or (data := self._data) is None:
            return
        madvise = ctypes.CDLL(None).madvise
        for start in range(0, self.size, _AT_A_TIME):
            size = min(_AT_A_TIME, self.size - start)
            place, length = ctypes.c_void_p(data.ctypes.data + start), ctypes.c_size_t(size)
            if self._data is None or madvise(place, length, _POPULATE_READ):
                return

    def close(self) -> None:
        """Gives the map back: at once, or when the last view of it goes."""
        self._pages = self._data = None


class _Pages(mmap.mmap):
    """The map of an open file, in `MAPS` (if there is room) as long as the system has it: until its last view goes."""

    _lock: threading.Lock
    _watch: Watch
    _state: tuple[int, int]
    _file: int | None = None
    _entry: int | None = None

    def __new__(cls, file: int, size: int) -> "_Pages":
        pages = super().__new__(cls, file, size, access=mmap.ACCESS_READ)
        pages._file = os.dup(file)
        pages._lock, pages._watch = threading.Lock(), Watch(file)
        pages._state = _state(file)
        with contextlib.suppress(IndexError):  # none is free
            entry = pages._entry = _free.pop()
            MAPS[entry] = np.frombuffer(pages, np.uint8).ctypes.data, 0, False
            MAPS[entry, 1] = size  # last, for now the entry counts
        return pages

    def __del__(self) -> None:
        if self._entry is not None:
            MAPS[self._entry, 1] = 0
            _free.append(self._entry)
        if self._file is not None:
            self._watch.close()
            os.close(self._file)

    def fault(self) -> str:
        """What became of the file; nothing if it is as it was."""
        assert self._file is not None
        try:
            if _state(self._file) != self._state and (change := self._change(self._file)):
                return change
        except OSError:  # of a server that no longer has it
            return "was lost"
        return "could not be read" if self._entry is not None and MAPS[self._entry, 2] else ""

    def _change(self, file: int) -> str:
        """What another state of the file means; nothing if only its time of writing was set, as `touch` does."""
        with self._lock:
            state = _state(file)
            if state[0] != self._state[0]:
                return "was cut short" if state[0] < self._state[0] else "was changed"
            if state != self._state and not self._watch.only_set():
                return "was changed"
            self._state = state
            return ""


def _state(file: int) -> tuple[int, int]:
    """What tells an open file from the same one with other bytes: its size, and when it was last written to."""
    status = os.fstat(file)
    return status.st_size, status.st_mtime_ns
