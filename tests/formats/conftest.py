"""Builds small GGUF files byte by byte, so that tests can make each of them wrong in one way."""

import pathlib
import struct

import pytest

from edgeinfer.formats import gguf

NUMBERS = {
    "u8": (0, "B"),
    "i8": (1, "b"),
    "u16": (2, "H"),
    "i16": (3, "h"),
    "u32": (4, "I"),
    "i32": (5, "i"),
    "f32": (6, "f"),
    "bool": (7, "B"),
    "u64": (10, "Q"),
    "i64": (11, "q"),
    "f64": (12, "d"),
}


def string(text):
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def one(kind, value):
    return string(value) if kind == "str" else struct.pack("<" + NUMBERS[kind][1], value)


def number(kind):
    return 8 if kind == "str" else NUMBERS[kind][0]


def pair(key, kind, value):
    """A key-value pair; `kind` is a number's or "str", in brackets for an array; a bytes `kind` is written as it is."""
    if isinstance(kind, bytes):
        return string(key) + kind
    if kind.startswith("["):
        head = struct.pack("<IIQ", 9, number(kind[1:-1]), len(value))
        return string(key) + head + b"".join(one(kind[1:-1], item) for item in value)
    return string(key) + struct.pack("<I", number(kind)) + one(kind, value)


def tensor(name, dims, kind=0, offset=0, dimensions=None):
    """A tensor's description; `dims` in file order (columns first), `dimensions` the count that is stated."""
    count = len(dims) if dimensions is None else dimensions
    return string(name) + struct.pack(f"<I{len(dims)}QIQ", count, *dims, kind, offset)


def build(pairs=(), tensors=(), data=b"", version=3, n_pairs=None, n_tensors=None, alignment=32):
    """The bytes of a file; `pairs` and `tensors` are arguments of the functions above, counts are true by default."""
    counts = (len(tensors) if n_tensors is None else n_tensors, len(pairs) if n_pairs is None else n_pairs)
    raw = b"GGUF" + struct.pack("<IQQ", version, *counts)
    raw += b"".join(pair(*item) for item in pairs) + b"".join(tensor(*item) for item in tensors)
    return raw + bytes(-len(raw) % alignment) + data


@pytest.fixture
def write(tmp_path):
    """A function that writes bytes, or the file `build` makes of its arguments, and returns the path."""

    def write(content=None, name="model.gguf", **parts):
        path = pathlib.Path(tmp_path) / name
        path.write_bytes(build(**parts) if content is None else content)
        return str(path)

    return write


@pytest.fixture
def build_gguf():
    return build


@pytest.fixture
def opened(write):
    """A function that opens the file that `build` makes of its arguments."""
    return lambda **parts: gguf.open(write(**parts))


@pytest.fixture
def refusal(write):
    """A function that opens such a file and returns the text of the one-line error of the kind it must give."""

    def refusal(error, content=None, name="model.gguf", **parts):
        path = write(content, name, **parts)
        with pytest.raises(error) as caught:
            gguf.open(path)
        text = str(caught.value)
        assert caught.type is error and text.startswith(f"{path}: ") and "\n" not in text and text.isprintable()
        return text.removeprefix(f"{path}: ")

    return refusal
