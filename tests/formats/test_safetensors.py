"""Safetensors files: read as they are, and one error for each way one can be wrong."""

import json

import numpy as np
import pytest

from edgeinfer.errors import FormatError
from edgeinfer.formats import safetensors


def write(path, header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)
    return path


def described(start=0, end=8, dtype="F32", shape=(2,)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.safetensors"


def test_tensors_are_views_of_the_file(path):
    x = np.arange(6, dtype="<f4")
    header = {
        "__metadata__": {"format": "pt"},
        "a": described(0, 24, shape=(2, 3)),
        "b": described(24, 26, "BF16", (1,)),
    }
    file = safetensors.open(write(path, header, x.tobytes() + b"\1\2"))
    assert list(file.tensors) == ["a", "b"]
    a, b = file.tensors.values()
    assert (a.shape, a.dtype) == ((2, 3), "F32")
    assert np.array_equal(a.data.view("<f4"), x) and not a.data.flags.writeable
    assert b.data.tobytes() == b"\1\2"


def test_a_scalar_and_an_empty_tensor_are_tensors(path):
    file = safetensors.open(write(path, {"a": described(0, 4, shape=()), "b": described(4, 4, shape=(0, 3))}, b"1234"))
    assert [(tensor.shape, tensor.nbytes) for tensor in file.tensors.values()] == [((), 4), ((0, 3), 0)]


@pytest.mark.parametrize(
    ("header", "word"),
    [
        ({"a": described(0, 4)}, "takes 8 bytes"),
        ({"a": described(4, 12)}, "bytes missing: 4 of the tensor"),
        ({"a": described(0, 1 << 62, shape=(1 << 60,))}, "ends"),
        ({"a": described(8, 0)}, "data_offsets"),
        ({"a": described(-8, 0)}, "data_offsets"),
        ({"a": described(0, 8, shape=(-2, -1))}, "shape"),
        ({"a": described(0, 8, shape=(2.0,))}, "shape"),
        ({"a": described(0, 8, shape=(True, 2))}, "shape"),
        ({"a": described(0, 8, shape=(1,) * 8 + (2,))}, "shape"),
        ({"a": described(0, 8, dtype="F33")}, "F33"),
        ({"a": described(0, 8, dtype=["F32"])}, "dtype"),
        ({"a": {"dtype": "F32", "shape": [2]}}, "no dtype"),
        ({"a": 3}, "no dtype"),
        ({"a": described(), "b": described()}, "overlap"),
        ([], "no JSON object"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": ', "no JSON"),
        (b"\xff\xff", "no JSON"),
        (b"[" * 200_000, "nested"),
    ],
)
def test_a_header_that_is_wrong_is_refused(path, header, word):
    with pytest.raises(FormatError, match=word) as error:
        safetensors.open(write(path, header, bytes(8)))
    assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (b"", "empty"),
        (b"\1", "truncated"),
        ((1 << 40).to_bytes(8, "little") + b"{}", "truncated"),
        ((3).to_bytes(8, "little") + b"{}", "truncated"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git-lfs"),
        (b"<!DOCTYPE html><html>", "HTML"),
    ],
)
def test_what_is_no_such_file_is_refused(path, raw, word):
    path.write_bytes(raw)
    with pytest.raises(FormatError, match=word):
        safetensors.open(path)


def test_every_byte_of_a_header_may_be_wrong(path):
    """Whatever is changed, it is an error of ours or a sound file."""
    good = write(path, {"a": described(), "b": described(8, 12, "I32", (1,))}, bytes(12)).read_bytes()
    rng = np.random.RandomState(0)
    refused = 0
    for _ in range(2000):
        raw = bytearray(good)
        raw[rng.randint(len(raw) - 12)] = rng.choice(list(b'\0\1{}[]"0129,:aF\xff'))
        path.write_bytes(raw)
        try:
            safetensors.open(path).close()
        except FormatError:
            refused += 1
    assert refused > 1000
