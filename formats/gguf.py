"""GGUF files: `open` maps one, checks all it says about itself, and shows metadata and tensors without copying.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.  Versions 2 and 3, little endian."""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np

from edgeinfer.errors import EdgeInferError, FormatError, UnsupportedError
from edgeinfer.formats.cursor import Cursor, shown
from edgeinfer.formats.gguf_metadata import Value, read_metadata
from edgeinfer.formats.gguf_shards import check_single
from edgeinfer.formats.gguf_tensors import Tensor, read_tensors
from edgeinfer.formats.magic import MAGIC, describe
from edgeinfer.formats.mapped import Mapped

__all__ = ["REQUIRED", "GgufFile", "Tensor", "open"]

REQUIRED: Any = object()  # the default of a key that must be there
_DEFAULT_ALIGNMENT = 32
_VERSIONS = (2, 3)
_Kind = TypeVar("_Kind", bound=int | float | str)
_Default = TypeVar("_Default")
_Number: TypeAlias = type[int] | type[float] | type[bool]


class GgufFile:
    """An open GGUF file; made by `open`, closed by `close` or the end of a `with` block.  `size` is bytes.

    `metadata` has every key with its value; arrays are decoded at each access, so prefer `get`, `array` and `strings`.
    `tensors` has every tensor by name, in file order."""

    def __init__(self, path: str, file: Mapped) -> None:
        self.path = path
        self.size = file.size
        self._file = file
        cursor = Cursor(file.view(0, file.size), len(MAGIC))
        self.version = _read_version(cursor)
        tensors, pairs = cursor.u64("the header"), cursor.u64("the header")
        self._metadata = read_metadata(cursor, file, pairs)
        self.alignment = self._read_alignment()
        self._tensors = {tensor.name: tensor for tensor in read_tensors(cursor, file, tensors, self.alignment)}
        self._check_single(cursor.position)

    @property
    def metadata(self) -> Mapping[str, object]:
        return self._metadata

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return MappingProxyType(self._tensors)

    @overload
    def get(self, key: str, kind: type[_Kind]) -> _Kind: ...
    @overload
    def get(self, key: str, kind: type[_Kind], default: _Default) -> _Kind | _Default: ...
    def get(self, key: str, kind: type[Any], default: Any = REQUIRED) -> Any:
        """The single value of `key`, or `default` if the file lacks the key.

        FormatError if it is missing and has no default, or is not of `kind` (a bool is no int)."""
        value = self._value(key, kind.__name__, default)
        if value is None:
            return default
        if value.count is not None or value.kind is not kind:
            raise self._wrong_kind(key, value, kind.__name__)
        return self._metadata[key]

    @overload
    def array(self, key: str, kind: _Number) -> np.ndarray: ...
    @overload
    def array(self, key: str, kind: _Number, default: _Default) -> np.ndarray | _Default: ...
    def array(self, key: str, kind: _Number, default: Any = REQUIRED) -> Any:
        """The numbers of `key` [count], a single value as an array of one.

        A read-only view of the file (of bool a copy), perhaps unaligned.  Errors as of `get`."""
        value = self._value(key, f"an array of {kind.__name__}", default)
        if value is None:
            return default
        if value.kind is not kind or value.dtype is None:
            raise self._wrong_kind(key, value, f"an array of {kind.__name__}")
        return self._metadata.numbers(value)

    @overload
    def strings(self, key: str) -> list[bytes]: ...
    @overload
    def strings(self, key: str, default: _Default) -> list[bytes] | _Default: ...
    def strings(self, key: str, default: Any = REQUIRED) -> Any:
        """The strings of the array `key`, as bytes.  Errors as of `get`."""
        value = self._value(key, "an array of str", default)
        if value is None:
            return default
        if value.fields is None:
            raise self._wrong_kind(key, value, "an array of str")
        return self._metadata.strings(value)

    def close(self) -> None:
        """Releases the map, which views handed out before keep until they go; reading after it is a RequestError."""
        self._file.close()

    def __enter__(self) -> "GgufFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _value(self, key: str, wanted: str, default: Any) -> Value | None:
        value = self._metadata.value(key)
        if value is None and default is REQUIRED:
            raise FormatError(f"key {shown(key)} is missing, {wanted} wanted")
        return value

    def _wrong_kind(self, key: str, value: Value, wanted: str) -> FormatError:
        return FormatError(f"key {shown(key)} is {value}, {wanted} wanted")

    def _check_single(self, end: int) -> None:
        """Refuses shards of a split model; `end` is the first byte behind the tensors' descriptions."""
        end = max([end, *(tensor.offset + tensor.nbytes for tensor in self._tensors.values())])
        end += -end % self.alignment
        check_single(self.path, self.get("split.count", int, 0), self._file.view(end, len(MAGIC)).tobytes())

    def _read_alignment(self) -> int:
        value = self._metadata.value("general.alignment")
        if value is None:
            return _DEFAULT_ALIGNMENT
        if value.count is not None or value.type_name != "u32":
            raise FormatError(f"key 'general.alignment' is {value}, u32 wanted")
        alignment = int(self._metadata.numbers(value)[0])
        if alignment.bit_count() != 1:
            raise FormatError(f"general.alignment is {alignment}, no power of two")
        return alignment


def open(path: str | os.PathLike[str]) -> GgufFile:
    """Opens the GGUF file at `path`.  Reads its header only, so it takes milliseconds however large the file is.

    FormatError, one line naming file and cause, if it is not a whole and sound GGUF file.  UnsupportedError if it is
    big-endian, one of several shards, or of tensor types that were removed from GGUF or are ik_llama.cpp's."""
    name = os.fsdecode(path)
    try:
        file = Mapped(name)
        if fault := describe(file.view(0, 512).tobytes()):
            raise FormatError(fault)
        return GgufFile(name, file)
    except EdgeInferError as error:
        raise type(error)(f"{name if name.isprintable() else shown(name)}: {error}") from None


def _read_version(cursor: Cursor) -> int:
    version = cursor.u32("the header")
    swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
    if swapped in _VERSIONS:
        raise UnsupportedError(f"a big-endian GGUF file (version {swapped}); only little-endian files can be read")
    if version not in _VERSIONS:
        raise FormatError(f"GGUF version {version}; versions 2 and 3 can be read")
    return version
