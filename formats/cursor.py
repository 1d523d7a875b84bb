"""A reader's place in a memory-mapped file: little-endian numbers and byte runs, never beyond the end."""

import mmap
import struct

from edgeinfer.errors import FormatError

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


def shown(text: str) -> str:
    """`text` from a file as one printable line for an error: quoted, escaped, cut at 100 characters."""
    return repr(text if len(text) <= 100 else text[:100] + "...")


class Cursor:
    """Reads `buffer` from `position` on; FormatError with the word "truncated" where the file ends too early."""

    def __init__(self, buffer: mmap.mmap, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position
        self.size = len(buffer)

    def skip(self, size: int, what: str) -> int:
        """Moves on by `size` bytes; returns where they start."""
        start = self.position
        missing = start + size - self.size
        if missing > 0:
            raise FormatError(f"truncated: {what} at byte {start} needs {missing} bytes more than the file has")
        self.position = start + size
        return start

    def u32(self, what: str) -> int:
        start = self.skip(4, what)
        number: int = _U32.unpack_from(self.buffer, start)[0]
        return number

    def u64(self, what: str) -> int:
        start = self.skip(8, what)
        number: int = _U64.unpack_from(self.buffer, start)[0]
        return number

    def text(self, what: str, limit: int) -> str:
        """A string of at most `limit` bytes; bytes that are not UTF-8 become lone surrogates."""
        length = self.u64(what)
        if length > limit:
            raise FormatError(f"{what} at byte {self.position - 8} is {length} bytes long, more than {limit}")
        start = self.skip(length, what)
        return self.buffer[start : start + length].decode("utf-8", "surrogateescape")
