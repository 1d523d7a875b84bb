"""Opening GGUF files, and asking them for values."""

import pathlib
import random
import struct

import gguf as gguf_package
import numpy as np
import pytest

from edgeinfer.errors import EdgeInferError, FormatError, RequestError, UnsupportedError
from edgeinfer.formats import gguf

PAIRS = [
    ("int", "u32", 7),
    ("float", "f32", 0.5),
    ("bool", "bool", 1),
    ("str", "str", "text"),
    ("ints", "[i32]", [1, -2, 3]),
    ("floats", "[f32]", [1, 2.5]),
    ("bools", "[bool]", [1, 0]),
    ("strs", "[str]", ["a", b"\xff", ""]),
]
# Those of the kit's bad files whose fault is the format's; the others' is the model's, so they can be read.
MALFORMED = tuple(
    "empty trunc- magic- version- n_kv- n_tensors- key-length- string- array- ndims- dim- tensor-type- row- offset- "
    "alignment- dup-key key-empty split-".split()
)


@pytest.fixture
def file(opened):
    return opened(pairs=PAIRS, tensors=[("w", (32, 2), 8, 0)], data=bytes(68))


@pytest.mark.parametrize("version", [2, 3])
def test_what_a_file_says_about_itself(write, version):
    path = write(pairs=PAIRS, version=version)
    file = gguf.open(pathlib.Path(path))
    assert (file.path, file.version, file.alignment) == (path, version, 32)
    assert file.size == pathlib.Path(path).stat().st_size
    assert len(file.metadata) == len(PAIRS) and file.tensors == {}


def test_files_of_the_gguf_package_are_read(tmp_path):
    writer = gguf_package.GGUFWriter(str(tmp_path / "a.gguf"), "llama")
    writer.add_block_count(2)
    writer.add_token_list(["a", "b", "▁c"])
    weights = np.arange(64, dtype=np.float32).reshape(2, 32)
    writer.add_tensor("f32", weights)
    q8_0 = gguf_package.quantize(weights, gguf_package.GGMLQuantizationType.Q8_0)
    writer.add_tensor("q8_0", q8_0, raw_dtype=gguf_package.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with gguf.open(tmp_path / "a.gguf") as file:
        assert file.get("general.architecture", str) == "llama" and file.get("llama.block_count", int) == 2
        assert list(file.strings("tokenizer.ggml.tokens")) == [b"a", b"b", "▁c".encode()]
        assert np.array_equal(file.tensors["f32"].float32(), weights)
        assert np.array_equal(file.tensors["q8_0"].data, q8_0) and file.tensors["q8_0"].shape == (2, 32)


@pytest.mark.parametrize(
    "key, kind, value", [("int", int, 7), ("float", float, 0.5), ("bool", bool, True), ("str", str, "text")]
)
def test_get(file, key, kind, value):
    assert file.get(key, kind) == value and type(file.get(key, kind)) is kind


def test_defaults_are_for_missing_keys_only(file):
    assert file.get("none", int, None) is None and file.get("int", int, 8) == 7
    assert file.array("none", int, None) is None and file.strings("none", []) == []
    with pytest.raises(FormatError, match="key 'str' is str, int wanted"):
        file.get("str", int, 8)


@pytest.mark.parametrize(
    "key, kind, found",
    [
        ("bool", int, "bool, int wanted"),
        ("int", bool, "u32, bool wanted"),
        ("int", float, "u32, float wanted"),
        ("float", int, "f32, int wanted"),
        ("int", str, "u32, str wanted"),
        ("ints", int, "an array of 3 i32, int wanted"),
        ("strs", str, "an array of 3 str, str wanted"),
    ],
)
def test_get_of_another_kind(file, key, kind, found):
    with pytest.raises(FormatError) as caught:
        file.get(key, kind)
    assert str(caught.value) == f"key '{key}' is {found}"


def test_missing_keys_are_named(file):
    for ask, wanted in [
        (lambda: file.get("a.b", int), "int"),
        (lambda: file.array("a.b", float), "an array of float"),
        (lambda: file.strings("a.b"), "an array of str"),
    ]:
        with pytest.raises(FormatError) as caught:
            ask()
        assert str(caught.value) == f"key 'a.b' is missing, {wanted} wanted"


def test_array(file):
    assert file.array("ints", int).tolist() == [1, -2, 3] and not file.array("ints", int).flags.owndata
    assert file.array("floats", float).tolist() == [1, 2.5]
    assert file.array("bools", bool).tolist() == [True, False]


def test_a_single_value_is_an_array_of_one(file):
    assert file.array("int", int).tolist() == [7] and file.array("float", float).tolist() == [0.5]


@pytest.mark.parametrize(
    "key, kind", [("ints", float), ("floats", int), ("bools", int), ("strs", int), ("str", int), ("bool", int)]
)
def test_array_of_another_kind(file, key, kind):
    with pytest.raises(FormatError, match=f"key '{key}' is .*, an array of {kind.__name__} wanted"):
        file.array(key, kind)


def test_strings_are_bytes(file):
    assert list(file.strings("strs")) == [b"a", b"\xff", b""]


@pytest.mark.parametrize("key", ["ints", "str", "int"])
def test_strings_of_another_kind(file, key):
    with pytest.raises(FormatError, match=f"key '{key}' is .*, an array of str wanted"):
        file.strings(key)


def test_end_of_with_closes(write):
    with gguf.open(write(pairs=PAIRS)) as file:
        assert file.get("int", int) == 7
    for ask in (lambda: file.get("int", int), lambda: file.array("ints", int), lambda: file.strings("strs")):
        with pytest.raises(RequestError, match="the file is closed"):
            ask()
    file.close()


@pytest.mark.parametrize("size", [5, 8, 20, 23])
def test_cut_inside_the_header(refusal, build_gguf, size):
    assert refusal(FormatError, build_gguf()[:size]).startswith("truncated: the file ends inside the header")


@pytest.mark.parametrize("version", [0, 1, 4, 9, 2**32 - 1])
def test_version(refusal, version):
    assert refusal(FormatError, version=version) == f"GGUF version {version}; versions 2 and 3 can be read"


@pytest.mark.parametrize("version", [2, 3])
def test_big_endian(refusal, version):
    raw = b"GGUF" + struct.pack(">IQQ", version, 0, 0)
    assert refusal(UnsupportedError, raw).startswith(f"a big-endian GGUF file (version {version})")


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "the file is empty"),
        (b"tjgg" + bytes(100), "legacy GGML"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git-lfs"),
        (b"<!DOCTYPE html><html>404</html>", "HTML"),
        (b"Not found\n", "a text file"),
        (bytes(100), "not a GGUF file"),
    ],
)
def test_other_files(refusal, content, words):
    assert words in refusal(FormatError, content)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(FormatError, match="none.gguf: cannot be read: No such file"):
        gguf.open(tmp_path / "none.gguf")
    with pytest.raises(FormatError, match="is a directory"):
        gguf.open(tmp_path)


def test_path_may_be_bytes(write):
    path = write(pairs=PAIRS)
    assert gguf.open(path.encode()).path == path


def test_unprintable_path_is_escaped(tmp_path):
    with pytest.raises(FormatError) as caught:
        gguf.open(tmp_path / "a\nb\udcff.gguf")
    assert str(caught.value).isprintable() and r"a\nb\udcff.gguf" in str(caught.value)


def read_all(path):
    """Opens the file and reads all it has; True if it could."""
    try:
        with gguf.open(path) as file:
            dict(file.metadata)
            for tensor in file.tensors.values():
                assert tensor.data.nbytes == tensor.nbytes
                assert not tensor.type.computable or tensor.float32().shape == tensor.shape
    except EdgeInferError as error:
        assert str(error).isprintable()
        return False
    return True


def test_mutated_files_give_errors_or_are_read(tmp_path, build_gguf):
    tokens = [f"token{index}" for index in range(600)]
    tensors = [("a", (32, 2), 8, 0), ("b", (4,), 0, 96), ("c", (256,), 12, 128)]
    good = build_gguf(pairs=[*PAIRS, ("tokens", "[str]", tokens)], tensors=tensors, data=bytes(range(256)) + bytes(16))
    draw, path, read = random.Random(7), tmp_path / "a.gguf", 0
    head = good.index(b"token0")
    for _ in range(1000):
        raw = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            at = draw.choice([draw.randrange(head), draw.randrange(len(raw) - 600, len(raw)), draw.randrange(len(raw))])
            raw[at] = draw.choice([0, 1, 127, 128, 255, draw.randrange(256)])
        path.write_bytes(raw if draw.random() < 0.8 else raw[: draw.randrange(1, len(raw))])
        read += read_all(path)
    assert 100 < read < 900  # both ends are reached


def test_kit_of_bad_files(shared):
    paths = sorted((shared / "kit" / "bad").glob("*.gguf"))
    assert len(paths) > 60
    for path in paths:
        assert read_all(path) is not path.name.startswith(MALFORMED), path.name
