"""GGUF files: `open` maps one, checks all it says about itself, and shows metadata and tensors without copying.

Of a split model any shard may be opened: the first one's metadata count, and the tensors are those of all.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.  Versions 2 and 3, little endian."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np

from edgeinfer.errors import EdgeInferError, FormatError, UnsupportedError
from edgeinfer.formats.cursor import Cursor, shown
from edgeinfer.formats.gguf_metadata import Value, read_metadata
from edgeinfer.formats.gguf_shards import check_end, shard_paths
from edgeinfer.formats.gguf_tensors import Tensor, read_tensors
from edgeinfer.formats.magic import MAGIC, describe
from edgeinfer.formats.mapped import Mapped, Source
from edgeinfer.formats.strings import Strings

__all__ = ["REQUIRED", "GgufFile", "Tensor", "open", "read"]

REQUIRED: Any = object()  # the default of a key that must be there
_DEFAULT_ALIGNMENT = 32
_VERSIONS = (2, 3)
_Kind = TypeVar("_Kind", bound=int | float | str)
_Default = TypeVar("_Default")
_Number: TypeAlias = type[int] | type[float] | type[bool]


class GgufFile:
    """An open GGUF file; made by `open`, closed by `close` or the end of a `with` block.  `size` is in bytes,
    of all shards.

    `metadata` has every key with its value; arrays are decoded at each access, so prefer `get`, `array` and `strings`.
    `tensors` has every tensor by name, in file order."""

    def __init__(self, path: str, file: Source) -> None:
        self.path = path
        self.size = file.size
        self._files: list[Source] = [file]
        cursor = Cursor(file.view(0, file.size), len(MAGIC))
        self.version = _read_version(cursor)
        tensors, pairs = cursor.u64("the header"), cursor.u64("the header")
        self._metadata = read_metadata(cursor, file, pairs)
        self.alignment = self._read_alignment()
        self._tensors = {tensor.name: tensor for tensor in read_tensors(cursor, file, tensors, self.alignment)}
        self.shards = self.get("split.count", int, 0)
        end = max([cursor.position, *(tensor.offset + tensor.nbytes for tensor in self._tensors.values())])
        end += -end % self.alignment
        if self.shards > 1:
            check_end(self.shards, file.view(end, len(MAGIC)).tobytes())

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
    def strings(self, key: str) -> Strings: ...
    @overload
    def strings(self, key: str, default: _Default) -> Strings | _Default: ...
    def strings(self, key: str, default: Any = REQUIRED) -> Any:
        """The strings of the array `key`, as bytes, copied.  Errors as of `get`."""
        value = self._value(key, "an array of str", default)
        if value is None:
            return default
        if value.fields is None:
            raise self._wrong_kind(key, value, "an array of str")
        return self._metadata.strings(value)

    def count(self, key: str, kind: _Number | type[str], default: int = REQUIRED) -> int:
        """How many values the array `key` has, without decoding any.  Errors as of `get`."""
        value = self._value(key, f"an array of {kind.__name__}", default)
        if value is None:
            return default
        if value.count is None or value.kind is not kind:
            raise self._wrong_kind(key, value, f"an array of {kind.__name__}")
        return value.count

    def check(self) -> None:
        """FormatError if the file, or a shard, is no longer as it was when it was opened: see `Mapped.check`."""
        try:
            for file in self._files:
                file.check()
        except FormatError as error:
            with self.naming():  # not around all, as every step of a model asks
                raise error

    def populate(self) -> None:
        """See `Mapped.populate`; of a file that is not mapped there is nothing to have before it is looked at."""
        for file in self._files:
            if isinstance(file, Mapped):
                file.populate()

    def naming(self) -> contextlib.AbstractContextManager[None]:
        """Has errors raised inside begin with the file's path."""
        return _naming(self.path)

    def close(self) -> None:
        """Releases the map, which views handed out before keep until they go; reading after it is a RequestError."""
        for file in self._files:
            file.close()

    def __enter__(self) -> "GgufFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _value(self, key: str, wanted: str, default: Any) -> Value | None:
        value = self._metadata.value(key)
        if value is None and default is REQUIRED:
            raise FormatError(f"key {shown(key)} is missing, {wanted} wanted")
        return value

    def _wrong_kind(self, key: str, value: Value | None, wanted: str) -> FormatError:
        return FormatError(f"key {shown(key)} is {value}, {wanted} wanted")

    def _join(self, shards: "list[GgufFile]") -> None:
        """Takes over the tensors of the other shards."""
        for number, shard in enumerate([self, *shards]):
            own, count = shard.get("split.no", int), shard.shards
            if (own, count) != (number, self.shards):
                name = os.path.basename(shard.path)
                raise FormatError(f"{name} says it is shard {own + 1} of {count}, not {number + 1} of {self.shards}")
        for shard in shards:
            for name in shard._tensors.keys() & self._tensors.keys():
                raise FormatError(f"tensor {shown(name)} is in more than one shard")
            self._tensors |= shard._tensors
            self._files += shard._files
            self.size += shard.size
        stated = self.get("split.tensors.count", int, len(self._tensors))
        if stated != len(self._tensors):
            raise FormatError(f"the shards have {len(self._tensors)} tensors in all, but are to have {stated}")

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


def open(path: str | os.PathLike[str], override: Mapping[str, object] | None = None) -> GgufFile:
    """Opens the GGUF file at `path`.  Reads its header only, so it takes milliseconds however large the file is.

    `override`: keys whose int, float, bool or str counts instead of what the file says.

    FormatError, one line naming file and cause, if it is not a whole and sound GGUF file, or a shard whose siblings are
    not beside it.  UnsupportedError if it is big-endian, or of tensor types that were removed from GGUF or are
    ik_llama.cpp's.  RequestError for an override of another kind than what it replaces."""
    file = _open_one(os.fsdecode(path))
    if file.shards > 1:
        file = _open_shards(file)
    with _naming(file.path):
        file._metadata.override(override or {})
    return file


def read(path: str, source: Source, override: Mapping[str, object] | None = None) -> GgufFile:
    """The GGUF file whose bytes `source` has and that `path` is to name.  `override` and errors as of `open`."""
    with _naming(path):
        file = GgufFile(path, source)
        file._metadata.override(override or {})
    return file


def _open_shards(opened: GgufFile) -> GgufFile:
    """The first shard, with the tensors of all; `opened` is one of them."""
    with _naming(opened.path):
        paths = shard_paths(opened.path, opened.shards)
    own = os.path.basename(opened.path)
    first, *others = (opened if os.path.basename(path) == own else _open_one(path) for path in paths)
    with _naming(opened.path):
        first._join(others)
    return first


def _open_one(path: str) -> GgufFile:
    with _naming(path):
        file = Mapped(path)
        if fault := describe(file.view(0, 512).tobytes()):
            raise FormatError(fault)
        return GgufFile(path, file)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Errors begin with the file's path."""
    try:
        yield
    except EdgeInferError as error:
        raise type(error)(f"{path if path.isprintable() else shown(path)}: {error}") from None


def _read_version(cursor: Cursor) -> int:
    version = cursor.u32("the header")
    swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
    if swapped in _VERSIONS:
        raise UnsupportedError(f"a big-endian GGUF file (version {swapped}); only little-endian files can be read")
    if version not in _VERSIONS:
        raise FormatError(f"GGUF version {version}; versions 2 and 3 can be read")
    return version
