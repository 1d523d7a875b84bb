"""Where a case is put so that it can be opened: in memory, where the system has files there."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

_MEMORY = pathlib.Path("/dev/shm")
_FOLDER = _MEMORY if os.access(_MEMORY, os.W_OK) else pathlib.Path(tempfile.gettempdir())


@contextlib.contextmanager
def placed(case: bytes) -> Iterator[str]:
    """The path of a file with these bytes.  Each time a new file, as a map of the last one may still be alive."""
    path = _FOLDER / f"edgeinfer-fuzz-{os.getpid()}.gguf"
    path.write_bytes(case)
    try:
        yield str(path)
    finally:
        path.unlink()
