"""Writes the header of a GGUF file, version 3: the key-value pairs and the descriptions of the tensors.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md."""

import math
import struct
from collections.abc import Mapping, Sequence

import numpy as np

from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.magic import MAGIC

ALIGNMENT = 32  # bytes; what holds where a file does not say
_VERSION = 3
_U32, _I32, _F32, _BOOL, _STRING, _ARRAY, _U64, _I64 = 4, 5, 6, 7, 8, 9, 10, 11
_NUMBERS = {
    np.dtype("<u4"): _U32,
    np.dtype("<i4"): _I32,
    np.dtype("<f4"): _F32,
    np.dtype("?"): _BOOL,
    np.dtype("u1"): 0,
}

Value = bool | int | float | str | Sequence[str | bytes] | np.ndarray
Described = tuple[str, GgmlType, tuple[int, ...]]


def encode_header(pairs: Mapping[str, Value], tensors: Sequence[Described]) -> tuple[bytes, list[int]]:
    """The header, padded to where the first tensor begins, and the place of each tensor in the file.

    Of numbers int is written as u32 where it fits, float as f32; arrays are of strings or of a dtype of _NUMBERS."""
    parts = [MAGIC, struct.pack("<IQQ", _VERSION, len(tensors), len(pairs))]
    for key, value in pairs.items():
        parts += [_string(key), *_value(value)]
    offsets, end = [], 0
    for name, kind, shape in tensors:
        parts += [_string(name), struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, end)]
        offsets.append(end)
        end += padded(math.prod(shape[:-1]) * kind.row_bytes(shape[-1]))
    header = b"".join(parts)
    start = padded(len(header))
    return header.ljust(start, b"\0"), [start + offset for offset in offsets]


def padded(size: int) -> int:
    """The next multiple of the alignment."""
    return size + -size % ALIGNMENT


def _value(value: Value) -> list[bytes]:
    """The type of a value and its bytes."""
    if isinstance(value, bool):
        return [struct.pack("<I?", _BOOL, value)]
    if isinstance(value, int):
        kind, letter = (_U32, "I") if 0 <= value < 1 << 32 else (_I64, "q") if value < 0 else (_U64, "Q")
        return [struct.pack(f"<I{letter}", kind, value)]
    if isinstance(value, float):
        return [struct.pack("<If", _F32, value)]
    if isinstance(value, str):
        return [struct.pack("<I", _STRING), _string(value)]
    if isinstance(value, np.ndarray):
        return [struct.pack("<IIQ", _ARRAY, _NUMBERS[value.dtype], len(value)), value.tobytes()]
    return [struct.pack("<IIQ", _ARRAY, _STRING, len(value)), *map(_string, value)]


def _string(text: str | bytes) -> bytes:
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw
