"""Texts from files and pipes, which may have no end."""

from typing import BinaryIO

from edgeinfer.errors import RequestError

MOST = 1 << 28  # bytes


def read_all(file: BinaryIO, name: str) -> bytes:
    """The rest of a file.  RequestError for more than any model would read in days."""
    data = file.read(MOST + 1)
    if len(data) > MOST:
        raise RequestError(f"{name}: more than {MOST >> 20} MB of text")
    return data
