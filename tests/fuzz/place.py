"""Where a case is put so that it can be read: in a file, which is in memory where the system has such, or in none."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

import numpy as np

_MEMORY = pathlib.Path("/dev/shm")
_FOLDER = _MEMORY if os.access(_MEMORY, os.W_OK) else pathlib.Path(tempfile.gettempdir())


class InMemory:
    """The bytes as a source that `gguf.read` takes, which is twice as quick as a file."""

    def __init__(self, case: bytes) -> None:
        self.size = len(case)
        self._data = np.frombuffer(case, np.uint8)

    def view(self, start: int, size: int) -> np.ndarray:
        return self._data[start : start + size]

    def check(self) -> None: ...
    def close(self) -> None: ...


def path_of(process: int) -> pathlib.Path:
    """Where a process has its file; one that died left it there."""
    return _FOLDER / f"edgeinfer-fuzz-{process}.gguf"


@contextlib.contextmanager
def placed(case: bytes) -> Iterator[str]:
    """The path of a file with these bytes.  Each time a new file, as a map of the last one may still be alive."""
    path = path_of(os.getpid())
    path.write_bytes(case)
    try:
        yield str(path)
    finally:
        path.unlink()
