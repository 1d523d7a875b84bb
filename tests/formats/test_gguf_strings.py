"""Finding the strings of an array."""

import random
import struct

import numpy as np
import pytest

from edgeinfer.errors import FormatError
from edgeinfer.formats.cursor import Cursor
from edgeinfer.formats.gguf_strings import string_fields

PREFIX = b"\1\2\3"  # nothing in a file is aligned


def cursor(raw):
    return Cursor(np.frombuffer(PREFIX + raw, np.uint8), len(PREFIX))


def array(strings):
    return b"".join(struct.pack("<Q", len(text)) + text for text in strings)


def found(strings, tail=b""):
    at = cursor(array(strings) + tail)
    fields = string_fields(at, len(strings), "x")
    assert fields.dtype == np.int64 and at.position == fields[-1] == len(PREFIX) + len(array(strings))
    data = bytes(at.view)
    return [data[start + 8 : end] for start, end in zip(fields[:-1], fields[1:], strict=True)]


def some(lengths, alphabet, count, seed=1):
    draw = random.Random(seed)
    return [bytes(draw.choices(alphabet, k=draw.choice(lengths))) for _ in range(count)]


LETTERS = b"etaoin \xe2\x96\x81"


@pytest.mark.parametrize(
    "strings",
    [
        [],
        [b""],
        [b"a"],
        some(range(1, 20), LETTERS, 20_000),  # several windows of plain text
        some(range(20), LETTERS, 5_000),  # with empty strings among them
        [b""] * 3_000,
        some(range(250, 260), LETTERS, 2_000),  # on both sides of a length of one byte
        some([1, 2, 3, 70_000], LETTERS, 60),  # strings longer than a window
        some(range(1, 40), b"\0ab", 5_000),  # text that looks like lengths
        some(range(1, 40), b"\0", 5_000),
        some(range(1, 40), b"\0\1\2\3", 5_000),
        some(range(1, 5), LETTERS, 3_000) + [bytes(7) + b"\1" * 9] + some(range(1, 5), LETTERS, 3_000),
    ],
    ids=range(12),
)
def test_every_string_is_found(strings):
    assert found(strings) == strings
    assert found(strings, tail=b"\1" + bytes(7) + b"z") == strings  # what follows looks like one more


@pytest.mark.parametrize("count", [1, 255, 256, 257, 700])
def test_every_truncation_is_an_error(count):
    raw = array([b"abc"] * count)
    for size in {0, 1, 7, 8, 10, len(raw) - 12, len(raw) - 1} & set(range(len(raw))):
        with pytest.raises(FormatError, match="truncated: the file ends inside the words"):
            string_fields(cursor(raw[:size]), count, "the words")


@pytest.mark.parametrize("length", [2**31, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("before", [0, 300])
def test_a_huge_length_is_an_error(length, before):
    raw = array([b"abc"] * before) + struct.pack("<Q", length) + bytes(100)
    with pytest.raises(FormatError, match="truncated"):
        string_fields(cursor(raw), before + 2, "x")
