"""The tensors of a GGUF file: their descriptions, checked against each other and the file, and views of their bytes.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md."""

import dataclasses
import math

import numpy as np

from edgeinfer.errors import EdgeInferError, FormatError, UnsupportedError
from edgeinfer.formats.cursor import Cursor, shown
from edgeinfer.formats.dequantize import dequantize
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.mapped import Source
from edgeinfer.formats.places import check_places

_MAX_TENSORS = 1 << 16
_MAX_NAME = 1 << 10  # bytes; ggml stops at 63
_MAX_DIMENSIONS = 4
_MAX_ELEMENTS = (1 << 63) - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: `shape` is (rows.., cols), `offset` counts from the start of the file, both sizes are bytes."""

    name: str
    type: GgmlType
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    _file: Source = dataclasses.field(repr=False, compare=False)

    @property
    def data(self) -> np.ndarray:
        """uint8 [rows.., row_bytes]: a read-only view of the file.  RequestError after the file was closed."""
        row_bytes = self.type.row_bytes(self.shape[-1])
        return self._file.view(self.offset, self.nbytes).reshape(*self.shape[:-1], row_bytes)

    def moved(self, place: Source, offset: int) -> "Tensor":
        """The same tensor, whose bytes are now there."""
        return dataclasses.replace(self, offset=offset, _file=place)

    def float32(self) -> np.ndarray:
        """float32 of `shape`, a new array.  UnsupportedError, naming the tensor, if the type is not computable."""
        if not self.type.computable:
            raise UnsupportedError(f"tensor {shown(self.name)} is {self.type.not_computable}")
        return dequantize(self.data, self.type)


def read_tensors(cursor: Cursor, file: Source, count: int, alignment: int) -> list[Tensor]:
    """The `count` tensors described at `cursor`, in file order.  FormatError names the tensor at fault."""
    if count > _MAX_TENSORS:
        raise FormatError(f"{count} tensors, more than {_MAX_TENSORS}")
    described: dict[str, tuple[GgmlType, tuple[int, ...], int]] = {}
    for index in range(count):
        name = cursor.text(f"the name of tensor {index}", _MAX_NAME)
        if name in described:
            raise FormatError(f"tensor {shown(name)} occurs twice")
        described[name] = _read_description(cursor, f"tensor {shown(name)}")
    start = cursor.position + -cursor.position % alignment  # of the data, which offsets in the file count from
    tensors = []
    for name, (kind, shape, offset) in described.items():
        if offset % alignment:
            raise FormatError(f"tensor {shown(name)} has the offset {offset}, no multiple of the alignment {alignment}")
        nbytes = math.prod(shape[:-1]) * kind.row_bytes(shape[-1])
        tensors.append(Tensor(name, kind, shape, start + offset, nbytes, file))
    check_places(((tensor.name, tensor.offset, tensor.nbytes) for tensor in tensors), file.size)
    return tensors


def _read_description(cursor: Cursor, what: str) -> tuple[GgmlType, tuple[int, ...], int]:
    """Type, shape and offset from the start of the data."""
    dimensions = cursor.u32(what)
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise FormatError(f"{what} has {dimensions} dimensions, not 1 to {_MAX_DIMENSIONS}")
    shape = tuple(reversed([cursor.u64(what) for _ in range(dimensions)]))
    if not all(1 <= size <= _MAX_ELEMENTS for size in shape):
        raise FormatError(f"{what} has a dimension of zero, negative or overflowing size: {_times(shape)}")
    if math.prod(shape) > _MAX_ELEMENTS:
        raise FormatError(f"{what} has dimensions whose product overflows: {_times(shape)}")
    number = cursor.u32(what)
    try:
        kind = GgmlType.of(number)
    except EdgeInferError as error:
        raise type(error)(f"{what} has {error}") from None
    if shape[-1] % kind.block:
        raise FormatError(f"{what} has rows of {shape[-1]} elements, not whole {kind.name} blocks of {kind.block}")
    return kind, shape, cursor.u64(what)


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
