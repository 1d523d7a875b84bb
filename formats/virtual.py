"""A GGUF file that is nowhere yet: its header is in memory, its tensors are made when they are looked at.

The reader of GGUF takes it for a mapped file, so what is opened is the same as what would be written."""

import dataclasses
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from edgeinfer.errors import RequestError
from edgeinfer.formats.floats import DTYPES, STORED, narrowed, widened
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.gguf_header import Value, encode_header
from edgeinfer.formats.mxfp4 import MadeMxfp4
from edgeinfer.formats.ternary import MadeTernary

Change = Callable[[np.ndarray], np.ndarray]  # of float32 numbers, element by element
_CHUNK = 1 << 20  # elements converted at a time, so that what is between takes a few MB


@dataclasses.dataclass(frozen=True)
class Made:
    """A tensor as a row of pieces laid end to end: numbers of the dtypes of `floats.STORED` in views of files, and what
    becomes of each number."""

    name: str
    type: GgmlType  # one of F32, F16, BF16
    shape: tuple[int, ...]
    pieces: tuple[tuple[np.ndarray, Change | None], ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.type.bytes

    def bytes(self) -> np.ndarray:
        """uint8 [nbytes]: a view of the file where it holds just these bytes, else a new array."""
        if len(self.pieces) == 1 and self._as_it_is(*self.pieces[0]) and self.pieces[0][0].flags.c_contiguous:
            return self.pieces[0][0].reshape(-1).view(np.uint8)
        made = np.empty(self.nbytes, np.uint8)
        numbers, start = made.view(DTYPES[self.type]), 0
        for piece, change in self.pieces:
            self._fill(numbers[start : start + piece.size].reshape(piece.shape), piece, change)
            start += piece.size
        return made

    def _as_it_is(self, piece: np.ndarray, change: Change | None) -> bool:
        return change is None and STORED[piece.dtype] == self.type

    def _fill(self, out: np.ndarray, piece: np.ndarray, change: Change | None) -> None:
        """The numbers of `piece` into `out`, a part of the tensor, a few rows at a time."""
        if self._as_it_is(piece, change):
            out[...] = piece
            return
        step = max(1, _CHUNK * len(piece) // piece.size)
        for start in range(0, len(piece), step):
            numbers = widened(piece[start : start + step])
            out[start : start + step] = narrowed(numbers if change is None else change(numbers), self.type)


class VirtualFile:
    """The bytes of the file: `view` of a place in the header, or of a whole tensor.  `size` is in bytes."""

    def __init__(self, pairs: Mapping[str, Value], tensors: Sequence[Made | MadeMxfp4 | MadeTernary]) -> None:
        described = [(tensor.name, tensor.type, tensor.shape) for tensor in tensors]
        self._header, places = encode_header(pairs, described)
        self._tensors = dict(zip(places, tensors, strict=True))
        self._made: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()
        self._closed = False
        self.size = max([len(self._header), *(place + tensor.nbytes for place, tensor in self._tensors.items())])

    def view(self, start: int, size: int) -> np.ndarray:
        """uint8 [size], read-only; of the header what there is of it.  A tensor is made once for all who look at it.
        RequestError after `close`."""
        if self._closed:
            raise RequestError("the file is closed")
        if start < len(self._header):
            return np.frombuffer(self._header, np.uint8)[start : start + size]
        made = self._made.get(start)
        if made is None:
            made = self._made[start] = self._tensors[start].bytes()
            made.flags.writeable = False
        return made

    def check(self) -> None:
        """FormatError where what is behind it is no longer what it was; a subclass knows what that is."""

    def close(self) -> None:
        """Lets go of the files behind it."""
        self._closed = True
        self._tensors.clear()

    def parts(self) -> Iterator[np.ndarray]:
        """All bytes in order, uint8, with no more than one tensor in memory at a time."""
        yield np.frombuffer(self._header, np.uint8)
        end = len(self._header)
        for place, tensor in self._tensors.items():
            yield np.zeros(place - end, np.uint8)
            yield tensor.bytes()
            end = place + tensor.nbytes
