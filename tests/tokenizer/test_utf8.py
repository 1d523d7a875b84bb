"""Broken UTF-8: repaired as llama.cpp does, walked by announced lengths, and str with undecodable bytes."""

import pytest

from edgeinfer.errors import RequestError
from edgeinfer.tokenizer.utf8 import as_bytes, repaired, symbols


@pytest.mark.parametrize("text", ["", "a", "é", "中文 😀", "\0\x7f"])
def test_sound_text_stays_as_it_is(text: str) -> None:
    assert repaired(text.encode()) == text
    assert [symbol.decode() for symbol in symbols(text.encode())] == list(text)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\xff", "\ufffd"),
        (b"\xe2\x82", "\ufffd\ufffd"),
        (b"\xc3(", "\ufffd("),
        (b"\xc0\xaf", "/"),
        (b"\xf4\x90\x80\x80", "\ufffd" * 4),
        (b"\xed\xa0\x80", "\ufffd" * 3),
        (b"x\xa0y", "x\ufffdy"),
    ],
)
def test_repaired(raw: bytes, text: str) -> None:
    assert repaired(raw) == text


def test_symbols_take_the_bytes_that_the_first_announces() -> None:
    assert list(symbols(b"ok\xfe\xffok\xc3")) == [b"o", b"k", b"\xfe\xffok", b"\xc3"]


def test_lone_surrogates() -> None:
    assert as_bytes("a\udcff") == b"a\xff"
    assert as_bytes("a\ud800") == b"a\xed\xa0\x80"
    assert as_bytes(b"\xff") == b"\xff"


@pytest.mark.parametrize("text", [None, 5, ["a"], bytearray(b"a")])
def test_what_is_no_text_is_the_callers_mistake(text: object) -> None:
    with pytest.raises(RequestError, match=f"str or bytes, not {type(text).__name__}"):
        as_bytes(text)  # type: ignore[arg-type]
