"""GGUF files in parts: taken apart, and put together again with whatever their fields hold by then.

Source of the layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md."""

from __future__ import annotations

import dataclasses
import functools
import math
import struct

from edgeinfer.formats.ggml import GgmlType
from tests.fuzz import odd

STRING, ARRAY = 8, 9
ALIGNMENT = b"general.alignment"
BLOCKS = {int(kind): (kind.block, kind.bytes) for kind in GgmlType}  # elements and bytes of a block, by type


@dataclasses.dataclass(frozen=True)
class Pair:
    """`value` is bytes of a number, of a string, or of an array's numbers; a list for an array of strings."""

    key: bytes
    kind: int
    value: bytes | list[bytes]
    inner: int = -1  # type of an array's values
    count: int = 0

    @functools.cached_property
    def raw(self) -> bytes:
        head = struct.pack("<Q", len(self.key)) + self.key + struct.pack("<I", self.kind)
        if self.kind == ARRAY:
            head += struct.pack("<IQ", self.inner, self.count)
        if isinstance(self.value, list):
            return head + b"".join([struct.pack("<Q", len(item)) + item for item in self.value])
        return head + (struct.pack("<Q", len(self.value)) if self.kind == STRING else b"") + self.value

    def with_value(self, value: bytes | list[bytes], count: int | None = None) -> Pair:
        if count is None and self.kind == ARRAY:
            count = len(value) if isinstance(value, list) else len(value) // odd.size(self.inner)
        return Pair(self.key, self.kind, value, self.inner, count or 0)


@dataclasses.dataclass(frozen=True)
class Info:
    """A tensor's description; dims in file order, columns first."""

    name: bytes
    dims: tuple[int, ...]
    kind: int
    offset: int

    @property
    def raw(self) -> bytes:
        head = struct.pack("<Q", len(self.name)) + self.name
        dims = [size % (1 << 64) for size in self.dims]
        return head + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, self.kind, self.offset)

    @property
    def size(self) -> int:
        block, size = BLOCKS.get(self.kind, (1, 4))
        return math.prod(self.dims[1:]) * -(-self.dims[0] // block) * size if self.dims else 0


@dataclasses.dataclass
class Parts:
    """A file in parts; `data` is what follows the padded header."""

    pairs: list[Pair]
    tensors: list[Info]
    data: bytes
    version: int = 3
    alignment: int = 32

    def copy(self) -> Parts:
        return dataclasses.replace(self, pairs=list(self.pairs), tensors=list(self.tensors))

    def value(self, key: bytes) -> bytes | list[bytes] | None:
        return next((pair.value for pair in self.pairs if pair.key == key), None)

    def write(self) -> bytes:
        head = struct.pack("<4sIQQ", b"GGUF", self.version, len(self.tensors), len(self.pairs))
        head += b"".join([pair.raw for pair in self.pairs]) + b"".join([info.raw for info in self.tensors])
        return head + bytes(-len(head) % self.alignment) + self.data


def parse(raw: bytes) -> Parts:
    """The parts of a sound file."""
    at = 24

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        return raw[at - size : at]

    def number(form: str) -> int:
        value: int = struct.unpack("<" + form, take(struct.calcsize(form)))[0]
        return value

    def pair() -> Pair:
        key, kind = take(number("Q")), number("I")
        if kind == STRING:
            return Pair(key, kind, take(number("Q")))
        if kind != ARRAY:
            return Pair(key, kind, take(odd.size(kind)))
        inner, count = number("I"), number("Q")
        if inner == STRING:
            return Pair(key, kind, [take(number("Q")) for _ in range(count)], inner, count)
        return Pair(key, kind, take(count * odd.size(inner)), inner, count)

    version, tensors, pairs = struct.unpack_from("<IQQ", raw, 4)
    found = [pair() for _ in range(pairs)]
    infos = []
    for _ in range(tensors):
        name, dims = take(number("Q")), number("I")
        infos.append(Info(name, struct.unpack(f"<{dims}Q", take(8 * dims)), number("I"), number("Q")))
    stated = [p.value for p in found if p.key == ALIGNMENT and isinstance(p.value, bytes)]
    alignment = int.from_bytes(stated[0], "little") if stated else 32
    return Parts(found, infos, raw[at + -at % alignment :], version, alignment)
