"""Virtual files: what is looked at is what would be written, and other readers take it."""

import gguf as other_reader
import numpy as np
import pytest

from edgeinfer.errors import RequestError
from edgeinfer.formats import gguf
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.virtual import Made, VirtualFile

PAIRS = {
    "general.architecture": "none",
    "a.flag": True,
    "a.count": 7,
    "a.large": 1 << 40,
    "a.below": -3,
    "a.number": 0.5,
    "a.text": "blank and ü",
    "a.texts": ["a", b"\xff\0", ""],
    "a.integers": np.array([1, 2], np.int32),
    "a.numbers": np.array([0.5], np.float32),
    "a.flags": np.array([True, False]),
}
X = np.arange(24, dtype="<f4").reshape(4, 6)


def made():
    bits = (X.view("<u4") >> 16).astype("<u2")
    return [
        Made("as.it.is", GgmlType.F32, (4, 6), ((X, None),)),
        Made("turned", GgmlType.F32, (6, 4), ((X.T, None),)),
        Made("joined", GgmlType.F32, (6, 6), ((X[:1], None), (X[2:], None), (X, None))[:2] + ((X[1:4], None),)),
        Made("wide", GgmlType.F32, (24,), ((bits.reshape(-1), None),)),
        Made("narrow", GgmlType.BF16, (4, 6), ((X, None),)),
        Made("changed", GgmlType.F16, (4, 6), ((X[:2], lambda x: x + 1), (X[2:], lambda x: -x))),
    ]


EXPECTED = {
    "as.it.is": X,
    "turned": X.T,
    "joined": np.concatenate([X[:1], X[2:], X[1:4]]),
    "wide": X.reshape(-1),
    "narrow": X,
    "changed": np.concatenate([X[:2] + 1, -X[2:]]),
}


@pytest.fixture
def written(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"".join(part.tobytes() for part in VirtualFile(PAIRS, made()).parts()))
    return tmp_path / "x.gguf"


def test_pairs_and_tensors_read_back():
    file = gguf.read("here", VirtualFile(PAIRS, made()))
    found = dict(file.metadata)
    for key in ("a.integers", "a.numbers", "a.flags"):
        assert np.array_equal(found.pop(key), PAIRS[key])
    assert found.pop("a.texts") == ["a", "\udcff\0", ""]
    assert found == {key: value for key, value in PAIRS.items() if key in found}
    assert list(file.tensors) == list(EXPECTED)
    for name, x in EXPECTED.items():
        assert np.array_equal(file.tensors[name].float32(), x), name


def test_what_is_written_is_what_was_looked_at(written):
    one, other = gguf.read("here", VirtualFile(PAIRS, made())), gguf.open(written)
    assert one.size == other.size == written.stat().st_size
    assert str(dict(one.metadata)) == str(dict(other.metadata))
    for name, tensor in other.tensors.items():
        assert tensor.offset == one.tensors[name].offset
        assert np.array_equal(tensor.data, one.tensors[name].data)


def test_another_reader_takes_it(written):
    reader = other_reader.GGUFReader(written)
    assert {tensor.name for tensor in reader.tensors} == set(EXPECTED)
    assert reader.get_field("a.below").contents() == -3
    changed = next(tensor for tensor in reader.tensors if tensor.name == "changed")
    assert np.array_equal(changed.data, EXPECTED["changed"].astype(np.float16))


def test_a_tensor_as_it_is_is_no_copy_and_others_are_made_once():
    file = gguf.read("here", VirtualFile(PAIRS, made()))
    assert np.shares_memory(file.tensors["as.it.is"].data, X)
    assert not np.shares_memory(file.tensors["turned"].data, X)
    kept = file.tensors["turned"].data
    assert np.shares_memory(file.tensors["turned"].data, kept)
    assert not kept.flags.writeable


def test_nothing_is_read_after_close():
    file = gguf.read("here", VirtualFile(PAIRS, made()))
    file.close()
    with pytest.raises(RequestError, match="closed"):
        file.tensors["turned"].data  # noqa: B018


def test_large_tensors_are_converted_part_by_part():
    x = np.random.RandomState(0).standard_normal((3, 700_000)).astype("<f4")
    whole = Made("x", GgmlType.F16, x.shape, ((x, np.negative),)).bytes().view(np.float16)
    assert np.array_equal(whole.reshape(x.shape), (-x).astype(np.float16))
