"""Reading numbers and strings within bounds."""

import struct

import numpy as np
import pytest

from edgeinfer.errors import FormatError
from edgeinfer.formats.cursor import Cursor, shown


def cursor(raw, position=0):
    return Cursor(np.frombuffer(raw, np.uint8), position)


def test_numbers_are_little_endian():
    at = cursor(b"\xff" + struct.pack("<IQ", 0x01020304, 2**63 + 5), 1)
    assert (at.u32("x"), at.u64("x"), at.position) == (0x01020304, 2**63 + 5, 13)


def test_text_keeps_bytes_that_are_not_utf8():
    raw = "é".encode() + b"\xff\xfe"
    text = cursor(struct.pack("<Q", len(raw)) + raw).text("x", 10)
    assert text == "é\udcff\udcfe" and text.encode("utf-8", "surrogateescape") == raw


@pytest.mark.parametrize(
    "read", [lambda at: at.u32("the x"), lambda at: at.u64("the x"), lambda at: at.skip(2**64, "the x")]
)
def test_nothing_is_read_beyond_the_end(read):
    at = cursor(bytes(3))
    with pytest.raises(FormatError, match=r"truncated: the file ends inside the x \(at byte 0, bytes missing: \d+\)"):
        read(at)
    assert at.position == 0


def test_text_that_is_cut():
    with pytest.raises(FormatError, match="truncated.*bytes missing: 2"):
        cursor(struct.pack("<Q", 5) + b"abc").text("x", 10)


def test_text_that_is_too_long():
    with pytest.raises(FormatError, match="x .* is 11 bytes long, more than 10"):
        cursor(struct.pack("<Q", 11) + bytes(11)).text("x", 10)


def test_shown_is_one_short_printable_line():
    assert shown("a\nb\udcff\x1b") == r"'a\nb\udcff\x1b'"
    assert shown("x" * 10**6) == repr("x" * 100 + "...")
