"""A reader's place in a mapped file: little-endian numbers and runs of bytes, never beyond the end."""

import struct

import numpy as np

from edgeinfer.errors import FormatError

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


def shown(text: str) -> str:
    """`text` from a file as one printable line for an error: quoted, escaped, then cut at 100 characters."""
    quoted = repr(text[:101])
    return quoted if len(quoted) <= 102 else f"{quoted[:101]}...{quoted[-1]}"


def printable(text: str) -> str:
    """`text` with whatever a terminal would not show as a letter escaped, such as the codes that command it."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class Cursor:
    """Reads `data` uint8 [size] from `position` on; FormatError with the word "truncated" where it ends too early.

    `what` names in that error the thing that is read."""

    def __init__(self, data: np.ndarray, position: int) -> None:
        self.view = data.data
        self.position = position
        self.size = data.size

    def skip(self, size: int, what: str) -> int:
        """Moves on by `size` bytes; returns where they start."""
        start = self.position
        missing = start + size - self.size
        if missing > 0:
            raise FormatError(f"truncated: the file ends inside {what} (at byte {start}, bytes missing: {missing})")
        self.position = start + size
        return start

    def u32(self, what: str) -> int:
        start = self.skip(4, what)
        number: int = _U32.unpack_from(self.view, start)[0]
        return number

    def u64(self, what: str) -> int:
        start = self.skip(8, what)
        number: int = _U64.unpack_from(self.view, start)[0]
        return number

    def text(self, what: str, limit: int) -> str:
        """A string of at most `limit` bytes; bytes that are not UTF-8 become lone surrogates."""
        length = self.u64(what)
        if length > limit:
            raise FormatError(f"{what} (at byte {self.position - 8}) is {length} bytes long, more than {limit}")
        start = self.skip(length, what)
        return bytes(self.view[start : start + length]).decode("utf-8", "surrogateescape")
