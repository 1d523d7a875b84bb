"""A file mapped into memory, read-only: its pages come from the disk when touched and are shared between processes."""

import ctypes
import mmap
import os
import stat
import sys
from typing import Protocol

import numpy as np

from edgeinfer.errors import FormatError, RequestError

_POPULATE_READ = 22  # of Linux's madvise, from 5.14 on
_AT_A_TIME = 8 << 20  # bytes; the system lets nobody change this process's memory map meanwhile


class Source(Protocol):
    """Bytes that are looked at by place: those of a mapped file, or of one that is made as it is looked at."""

    size: int

    def view(self, start: int, size: int) -> np.ndarray: ...
    def check(self) -> None: ...
    def close(self) -> None: ...


class Mapped:
    """The bytes of a file that is not empty.  FormatError where `path` is no such file."""

    def __init__(self, path: str) -> None:
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for its other end
                raise FormatError("is a directory" if os.path.isdir(path) else "is not a regular file")
            with open(path, "rb") as file:
                self.size = os.fstat(file.fileno()).st_size
                if not self.size:
                    raise FormatError("the file is empty")
                pages = mmap.mmap(file.fileno(), self.size, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: the path holds a null byte
            raise FormatError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
        self._pages: mmap.mmap | None = pages
        self._data: np.ndarray | None = np.frombuffer(pages, np.uint8)

    def view(self, start: int, size: int) -> np.ndarray:
        """uint8 [size], read-only, of the file itself.  RequestError after `close`, else as `check`."""
        if self._data is None:
            raise RequestError("the file is closed")
        self.check()
        return self._data[start : start + size]

    def check(self) -> None:
        """FormatError if the file has become shorter.  To be asked before its pages are used: the system kills (SIGBUS)
        a process that touches a page behind the end, and nothing in Python could catch that."""
        if self._pages is not None and self._pages.size() < self.size:
            raise FormatError("the file was cut short while it was in use: load it again")

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
