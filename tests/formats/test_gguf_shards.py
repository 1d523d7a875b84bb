"""Split models."""

import pathlib

import pytest

from edgeinfer.errors import FormatError
from edgeinfer.formats import gguf


def shard(count, kind="u16", number=0, pairs=(), name="a", value=0, size=32):
    """The parts of a file with one tensor, whose first byte is `value`."""
    own = [("split.no", "u16", number), ("split.count", kind, count), *pairs]
    return {"pairs": own, "tensors": [(name, (1,), 0, 0)], "data": bytes([value]) + bytes(size - 1)}


@pytest.fixture
def split(write):
    """Writes three shards, each with `changes` of those by its number; their paths."""

    def split(changes=None, total=3):
        paths = []
        for number in range(3):
            pairs = [("key", "str", "first"), ("split.tensors.count", "i32", total)] if number == 0 else []
            parts = {"number": number, "pairs": pairs, "name": "abc"[number], "value": number + 1}
            parts |= (changes or {}).get(number, {})
            paths.append(write(name=f"m-{number + 1:05d}-of-00003.gguf", **shard(3, **parts)))
        return paths

    return split


@pytest.mark.parametrize("count", [0, 1])
def test_a_single_file_is_no_split_model(opened, count):
    assert "a" in opened(**shard(count)).tensors


@pytest.mark.parametrize("number", [0, 1, 2])
def test_any_shard_opens_the_whole_model(split, number):
    paths = split()
    with gguf.open(paths[number]) as file:
        assert file.path == paths[0] and file.metadata["key"] == "first"
        assert {name: tensor.data[0] for name, tensor in file.tensors.items()} == {"a": 1, "b": 2, "c": 3}
        assert file.size == sum(pathlib.Path(path).stat().st_size for path in paths)


def test_a_shard_without_tensors(split, write):
    paths = split(total=2)
    write(name="m-00001-of-00003.gguf", pairs=shard(3)["pairs"])
    assert list(gguf.open(paths[1]).tensors) == ["b", "c"]


def test_all_files_are_closed(split):
    file = gguf.open(split()[0])
    file.close()
    for tensor in file.tensors.values():
        with pytest.raises(Exception, match="closed"):
            tensor.data  # noqa: B018


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({1: {"number": 2}}, "m-00002-of-00003.gguf says it is shard 3 of 3, not 2 of 3"),
        ({2: {"name": "a"}}, "tensor 'a' is in more than one shard"),
    ],
)
def test_shards_that_do_not_belong_together(split, changes, message):
    with pytest.raises(FormatError) as caught:
        gguf.open(split(changes)[0])
    assert message in str(caught.value)


def test_shards_of_models_split_otherwise(split, write):
    paths = split()
    write(name="m-00003-of-00003.gguf", **shard(4, number=2))
    with pytest.raises(FormatError, match="m-00003-of-00003.gguf says it is shard 3 of 4, not 3 of 3"):
        gguf.open(paths[0])


def test_the_number_of_all_tensors(split):
    with pytest.raises(FormatError, match="the shards have 3 tensors in all, but are to have 4"):
        gguf.open(split(total=4)[0])


def test_a_malformed_sibling_is_named_once(split, write):
    paths = split()
    broken = write(b"GGUF\3", name="m-00002-of-00003.gguf")
    with pytest.raises(FormatError) as caught:
        gguf.open(paths[2])
    assert str(caught.value).startswith(f"{broken}: truncated") and str(caught.value).count(".gguf") == 1


def test_missing_shards_are_named(refusal, write):
    write(b"there", name="m-00002-of-00003.gguf")
    text = refusal(FormatError, name="m-00001-of-00003.gguf", **shard(3))
    assert text == "one of the 3 shards of a split model; not beside it: m-00003-of-00003.gguf"


def test_at_most_three_are_named(refusal):
    text = refusal(FormatError, name="m-00002-of-00006.gguf", **shard(6))
    assert text.endswith("m-00001-of-00006.gguf, m-00003-of-00006.gguf, m-00004-of-00006.gguf and 2 more")


@pytest.mark.parametrize("name", ["model.gguf", "m-00001-of-00004.gguf", "m-1-of-3.gguf"])
def test_a_name_that_is_not_the_shards(refusal, name):
    text = refusal(FormatError, name=name, **shard(3))
    assert text.endswith("but its name does not end in -NNNNN-of-00003.gguf, so the others cannot be found")


def test_huge_count(refusal):
    assert "one of the 18446744073709551615 shards" in refusal(FormatError, **shard(2**64 - 1, "u64"))


def test_count_of_another_type(refusal):
    assert "key 'split.count' is str, int wanted" in refusal(FormatError, **shard("3", "str"))


def test_concatenated_shards(refusal, build_gguf):
    raw = build_gguf(**shard(2)) + build_gguf(**shard(2))
    assert "concatenated shards of a split model: its 2 files" in refusal(FormatError, raw)


def test_concatenated_shards_of_which_the_first_has_no_tensors(refusal, build_gguf):
    raw = build_gguf(pairs=shard(2)["pairs"]) + build_gguf(**shard(2))
    assert "concatenated shards" in refusal(FormatError, raw)
