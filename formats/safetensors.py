"""Safetensors files: `open` maps one, checks all it says about itself, and shows its tensors without copying.

A file is a length in 8 bytes, a JSON object of so many bytes that says of each tensor its type, shape and place, and
the tensors.  Source: https://github.com/huggingface/safetensors#format."""

import dataclasses
import math
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from edgeinfer.errors import EdgeInferError, FormatError
from edgeinfer.formats.cursor import shown
from edgeinfer.formats.json_text import parse_object
from edgeinfer.formats.magic import describe
from edgeinfer.formats.mapped import Mapped
from edgeinfer.formats.places import check_places

_MAX_HEADER = 100_000_000  # bytes, as the format's own library has it
_MAX_DIMENSIONS = 8
_SIZES = {  # bytes of an element
    **{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "BOOL": 1},
    **{"U64": 8, "U32": 4, "U16": 2, "U8": 1, "C64": 8},
    **{"F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1},
}


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """One tensor of a file: `dtype` as the format calls it, `start` counted from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    nbytes: int
    _file: Mapped = dataclasses.field(repr=False, compare=False)

    @property
    def data(self) -> np.ndarray:
        """uint8 [nbytes]: a read-only view of the file, perhaps unaligned."""
        return self._file.view(self.start, self.nbytes)


class SafetensorsFile:
    """An open file; made by `open`.  `tensors` has every tensor by name, in file order."""

    def __init__(self, path: str, file: Mapped) -> None:
        self.path = path
        self._file = file
        self.tensors: Mapping[str, Stored] = MappingProxyType(_read(file))

    def check(self) -> None:
        """FormatError if the file is no longer as it was: see `Mapped.check`."""
        try:
            self._file.check()
        except FormatError as error:
            raise FormatError(f"{os.path.basename(self.path)}: {error}") from None

    def close(self) -> None:
        """Releases the map, which views handed out before keep until they go."""
        self._file.close()


def open(path: str | os.PathLike[str]) -> SafetensorsFile:
    """Opens the safetensors file at `path`; reads its header only.

    FormatError, one line naming file and cause, if it is not a whole and sound file of the format."""
    path = os.fsdecode(path)
    try:
        return SafetensorsFile(path, Mapped(path))
    except EdgeInferError as error:
        raise type(error)(f"{path if path.isprintable() else shown(path)}: {error}") from None


def _read(file: Mapped) -> dict[str, Stored]:
    length = int.from_bytes(file.view(0, 8).tobytes(), "little")
    if file.size < 10 or length > min(file.size - 8, _MAX_HEADER):
        head = file.view(0, 512).tobytes()
        known = describe(head) if length > _MAX_HEADER else ""
        hint = f": {known.replace('GGUF', 'safetensors')}" if known else ""
        raise FormatError(f"no safetensors file, or a truncated one: header of {length} bytes in {file.size}{hint}")
    header = parse_object(file.view(8, length).tobytes(), "the header")
    header.pop("__metadata__", None)
    start = 8 + length
    tensors = {name: _described(name, value, start, file) for name, value in header.items()}
    check_places(((tensor.name, tensor.start, tensor.nbytes) for tensor in tensors.values()), file.size)
    return tensors


def _described(name: str, value: Any, start: int, file: Mapped) -> Stored:
    """The tensor `name` that the header describes as `value`, its places counted from `start`."""
    what = f"tensor {shown(name)}"
    if not isinstance(value, dict) or not {"dtype", "shape", "data_offsets"} <= value.keys():
        raise FormatError(f"{what} has no dtype, shape or data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _SIZES:
        raise FormatError(f"{what} has the unknown dtype {shown(str(dtype))}; known are {' '.join(_SIZES)}")
    if not _sizes(shape) or len(shape) > _MAX_DIMENSIONS:
        raise FormatError(f"{what} has the shape {shown(str(shape))}, not up to {_MAX_DIMENSIONS} whole numbers")
    if not _sizes(offsets) or len(offsets) != 2 or offsets[1] < offsets[0]:
        raise FormatError(f"{what} has the data_offsets {shown(str(offsets))}, no beginning and end")
    nbytes = math.prod(shape) * _SIZES[dtype]
    if offsets[1] - offsets[0] != nbytes:
        raise FormatError(f"{what}, {dtype} {shape}, takes {nbytes} bytes, but has {offsets[1] - offsets[0]}")
    return Stored(name, dtype, tuple(shape), start + offsets[0], nbytes, file)


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and 0 <= size < 1 << 63 for size in value)
