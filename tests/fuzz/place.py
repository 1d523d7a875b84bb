"""Where a case is put so that it can be read: in a file or folder, in memory where the system has such, or in none."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping

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
    """Where a process has its file."""
    return _FOLDER / f"edgeinfer-fuzz-{process}.gguf"


def clear(process: int) -> None:
    """Removes what a process that died left."""
    path_of(process).unlink(missing_ok=True)
    shutil.rmtree(path_of(process).with_suffix(""), ignore_errors=True)


@contextlib.contextmanager
def placed(case: bytes) -> Iterator[str]:
    """The path of a file with these bytes.  Each time a new file, as a map of the last one may still be alive."""
    path = path_of(os.getpid())
    path.write_bytes(case)
    try:
        yield str(path)
    finally:
        path.unlink()


@contextlib.contextmanager
def placed_folder(files: Mapping[str, bytes]) -> Iterator[pathlib.Path]:
    """A folder with these files, some of them in folders of their own."""
    folder = path_of(os.getpid()).with_suffix("")
    try:
        for name, raw in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(raw)
        yield folder
    finally:
        shutil.rmtree(folder)
