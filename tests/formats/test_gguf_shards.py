"""Split models."""

import pytest

from edgeinfer.errors import FormatError, UnsupportedError

TENSOR = {"tensors": [("a", (1,), 0, 0)], "data": bytes(32)}


def shard(count, kind="u16"):
    return {"pairs": [("split.no", "u16", 0), ("split.count", kind, count)], **TENSOR}


@pytest.mark.parametrize("count", [0, 1])
def test_a_single_file_is_no_split_model(opened, count):
    assert "a" in opened(**shard(count)).tensors


def test_missing_shards_are_named(refusal, write):
    write(b"there", name="m-00002-of-00003.gguf")
    text = refusal(UnsupportedError, name="m-00001-of-00003.gguf", **shard(3))
    assert text == (
        "one of the 3 shards of a split model; split files are not supported yet; not beside it: m-00003-of-00003.gguf"
    )


def test_at_most_three_are_named(refusal):
    text = refusal(UnsupportedError, name="m-00002-of-00006.gguf", **shard(6))
    assert text.endswith("m-00001-of-00006.gguf, m-00003-of-00006.gguf, m-00004-of-00006.gguf and 2 more")


def test_no_shard_is_missing(refusal, write):
    write(b"there", name="m-00002-of-00002.gguf")
    text = refusal(UnsupportedError, name="m-00001-of-00002.gguf", **shard(2))
    assert text == "one of the 2 shards of a split model; split files are not supported yet"


@pytest.mark.parametrize("name", ["model.gguf", "m-00001-of-00004.gguf", "m-1-of-3.gguf"])
def test_a_name_that_is_not_the_shards(refusal, name):
    text = refusal(UnsupportedError, name=name, **shard(3))
    assert text == "one of the 3 shards of a split model; split files are not supported yet"


def test_huge_count(refusal):
    assert "one of the 18446744073709551615 shards" in refusal(UnsupportedError, **shard(2**64 - 1, "u64"))


def test_count_of_another_type(refusal):
    assert "key 'split.count' is str, int wanted" in refusal(FormatError, **shard("3", "str"))


def test_concatenated_shards(refusal, build_gguf):
    raw = build_gguf(**shard(2)) + build_gguf(**shard(2))
    assert "concatenated shards of a split model: its 2 files" in refusal(FormatError, raw)


def test_concatenated_shards_of_which_the_first_has_no_tensors(refusal, build_gguf):
    raw = build_gguf(pairs=shard(2)["pairs"]) + build_gguf(**shard(2))
    assert "concatenated shards" in refusal(FormatError, raw)
