"""The key-value pairs of a GGUF file: found and bounded when the file is opened, decoded when somebody asks.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md."""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from edgeinfer.errors import FormatError, RequestError
from edgeinfer.formats.cursor import Cursor, shown
from edgeinfer.formats.gguf_strings import string_fields
from edgeinfer.formats.mapped import Source
from edgeinfer.formats.strings import Strings

_MAX_PAIRS = 1 << 16
_MAX_STRINGS = 1 << 22  # in all string arrays together; the largest vocabularies have 2**18 tokens and as many merges
_MAX_KEY = (1 << 16) - 1  # bytes
_STRING, _ARRAY = 8, 9
_NUMBERS: dict[int, tuple[str, np.dtype, type]] = {  # id: name, dtype, kind
    0: ("u8", np.dtype("u1"), int),
    1: ("i8", np.dtype("i1"), int),
    2: ("u16", np.dtype("<u2"), int),
    3: ("i16", np.dtype("<i2"), int),
    4: ("u32", np.dtype("<u4"), int),
    5: ("i32", np.dtype("<i4"), int),
    6: ("f32", np.dtype("<f4"), float),
    7: ("bool", np.dtype("u1"), bool),
    10: ("u64", np.dtype("<u8"), int),
    11: ("i64", np.dtype("<i8"), int),
    12: ("f64", np.dtype("<f8"), float),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """Where a value is and what it is; `count` is None for a single value.  An override has `given` and no place."""

    type_name: str
    kind: type  # int, float, bool or str
    position: int  # of the first number or of the string's first byte
    size: int  # bytes
    count: int | None = None
    dtype: np.dtype | None = None  # of numbers
    fields: np.ndarray | None = None  # int[count + 1], of string arrays: see string_fields
    given: int | float | bool | str | None = None

    def __str__(self) -> str:
        return self.type_name if self.count is None else f"an array of {self.count} {self.type_name}"


class Metadata(Mapping[str, object]):
    """Key -> int, float, bool, str, numpy array, or list of str (undecodable bytes as lone surrogates)."""

    def __init__(self, file: Source, values: dict[str, Value]) -> None:
        self._file = file
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __getitem__(self, key: str) -> object:
        value = self._values[key]
        if value.given is not None:
            return value.given
        if value.fields is not None:
            return [raw.decode("utf-8", "surrogateescape") for raw in self.strings(value)]
        if value.kind is str:
            return self._bytes(value).decode("utf-8", "surrogateescape")
        numbers = self.numbers(value)
        return numbers[0].item() if value.count is None else numbers

    def value(self, key: str) -> Value | None:
        """Where and what the value of `key` is, without decoding it."""
        return self._values.get(key)

    def override(self, given: Mapping[str, object]) -> None:
        """Has these single values count instead of the file's.  RequestError for one of another kind than the file's,
        but an int may stand for a float."""
        if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
            raise RequestError("override must map keys, which are texts, to values")
        for key, value in given.items():
            self._values[key] = _given(key, value, self._values.get(key))

    def numbers(self, value: Value) -> np.ndarray:
        """The numbers of `value` [count or 1]: a read-only view of the file, perhaps unaligned; of bool a copy."""
        if value.given is not None:
            return np.array([value.given])
        assert value.dtype is not None
        numbers = self._file.view(value.position, value.size).view(value.dtype)
        return numbers != 0 if value.kind is bool else numbers

    def strings(self, value: Value) -> Strings:
        """The strings of a string array, copied."""
        assert value.fields is not None
        return Strings(self._file.view(value.position, value.size), value.fields - value.position)

    def _bytes(self, value: Value) -> bytes:
        return self._file.view(value.position, value.size).tobytes()


def read_metadata(cursor: Cursor, file: Source, pairs: int) -> Metadata:
    """The `pairs` key-value pairs at `cursor`, which moves behind them.  FormatError names the pair at fault."""
    if pairs > _MAX_PAIRS:
        raise FormatError(f"{pairs} key-value pairs, more than {_MAX_PAIRS}")
    values: dict[str, Value] = {}
    strings = 0
    for index in range(pairs):
        key = cursor.text(f"key {index}", _MAX_KEY)
        if not key:
            raise FormatError(f"key {index} is empty")
        if key in values:
            raise FormatError(f"key {shown(key)} occurs twice")
        value = _read_value(cursor, f"the value of {shown(key)}", _MAX_STRINGS - strings)
        if value.fields is not None:
            strings += len(value.fields) - 1
        values[key] = value
    return Metadata(file, values)


def _read_value(cursor: Cursor, what: str, strings_left: int) -> Value:
    number = cursor.u32(what)
    if number == _ARRAY:
        return _read_array(cursor, what, strings_left)
    if number == _STRING:
        size = cursor.u64(what)
        return Value("str", str, cursor.skip(size, what), size)
    name, dtype, kind = _number_type(number, what)
    return Value(name, kind, cursor.skip(dtype.itemsize, what), dtype.itemsize, None, dtype)


def _read_array(cursor: Cursor, what: str, strings_left: int) -> Value:
    number, count = cursor.u32(what), cursor.u64(what)
    if number == _ARRAY:
        raise FormatError(f"{what} is an array of arrays (nested), which GGUF readers do not take")
    if number != _STRING:
        name, dtype, kind = _number_type(number, what)
        size = count * dtype.itemsize
        return Value(name, kind, cursor.skip(size, what), size, count, dtype)
    if count > (cursor.size - cursor.position) // 8:
        raise FormatError(f"truncated: {what} has {count} strings, more than the rest of the file can hold")
    if count > strings_left:
        raise FormatError(f"{what} has {count} strings; a file may hold {_MAX_STRINGS} in all")
    start = cursor.position
    fields = string_fields(cursor, count, what)
    if cursor.position < 1 << 31:
        fields = fields.astype(np.int32)  # half of 2 MB, for as long as the file is open
    return Value("str", str, start, cursor.position - start, count, None, fields)


def _number_type(number: int, what: str) -> tuple[str, np.dtype, type]:
    if number not in _NUMBERS:
        raise FormatError(f"{what} has the unknown type {number}")
    return _NUMBERS[number]


def _given(key: str, value: object, old: Value | None) -> Value:
    """An override of what is `old` in the file.  RequestError if it cannot be one."""
    what = f"override of {shown(key)}"
    if key == "general.alignment" or key.startswith("split."):
        raise RequestError(f"{what}, which tells where things are in the file")
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        raise RequestError(f"{what} is beyond 64 bits")
    if old is not None and old.fields is not None:
        raise RequestError(f"{what} is {shown(str(value))}, {old} stands there")
    if old is not None and old.kind is float and type(value) is int:
        value = float(value)
    if not isinstance(value, (bool, int, float, str)) or (old is not None and type(value) is not old.kind):
        wanted = "int, float, bool or str" if old is None else old.kind.__name__
        raise RequestError(f"{what} is {shown(str(value))}, {wanted} wanted")
    dtype = None if isinstance(value, str) else np.array(value).dtype
    return Value(type(value).__name__, type(value), 0, 0, None, dtype, None, value)
