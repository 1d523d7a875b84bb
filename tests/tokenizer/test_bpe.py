"""Byte-level BPE on vocabularies whose ids can be read off: the id of a byte is the byte, merges follow from 256."""

from collections.abc import Callable

import pytest

from edgeinfer.tokenizer import Tokenizer

Make = Callable[..., Tokenizer]


def test_bytes_without_merges(bpe: Make) -> None:
    assert bpe().encode("aé\n") == [97, 0xC3, 0xA9, 10]


def test_merges_go_by_rank_not_by_place(bpe: Make) -> None:
    tokenizer = bpe(["b c", "a b", "Ġ bc"])
    assert tokenizer.encode("abc") == [97, 256]
    assert tokenizer.encode("ab") == [257]
    assert tokenizer.encode(" bc") == [258]


def test_merges_do_not_cross_words(bpe: Make) -> None:
    assert bpe(["a 1"]).encode("a1") == [97, ord("1")]


def test_a_byte_without_a_token_is_dropped_and_keeps_its_neighbours_apart(bpe: Make) -> None:
    tokenizer = bpe(["! #"], lacks='"')
    assert tokenizer.encode('!"#') == [ord("!"), ord("#")]
    assert tokenizer.encode("!#") == [256]


def test_a_word_that_is_a_token_wins_only_where_the_pre_tokenizer_says_so(bpe: Make) -> None:
    merges = ["a b", "b c", "a bc"]  # "abc" is a token, but merging reaches ab first
    assert bpe(merges).encode("abc") == [256, 99]
    assert bpe(merges, pre="llama3", add_bos_token=False).encode("abc") == [258]


def test_broken_utf8_is_exact_or_replaced(bpe: Make) -> None:
    tokenizer = bpe(["æ Ń"])
    assert tokenizer.encode(b"\xe6\xad", exact=True) == [256]
    assert tokenizer.encode(b"a \xff\xfe", exact=True) == [97, 32, 0xFF, 0xFE]
    assert tokenizer.encode(b"\xff") == [0xEF, 0xBF, 0xBD]
    assert tokenizer.encode("歪") == tokenizer.encode("歪", exact=True) == [256, 0xAA]


@pytest.mark.parametrize("raw", [bytes(range(256)), b"\xf0\x9f\x98 x\xc3", "naïve 😀".encode(), b"\xed\xa0\x80"])
def test_exact_bytes_come_back(bpe: Make, raw: bytes) -> None:
    tokenizer = bpe(["a b", "Ġ x"])
    assert tokenizer.decode(tokenizer.encode(raw, exact=True)) == raw


def test_merges_that_lead_nowhere_are_left_out(write: Callable[..., object]) -> None:
    merges = ["a", "a b", "x y", "a  b", "aaa bbb", "c d"]
    path = write(model="gpt2", pre="gpt-2", tokens=["a", "b", "c", "d", "cd"], token_type=[1] * 5, merges=merges)
    assert Tokenizer.from_gguf(path).encode("abcd") == [0, 1, 4]  # type: ignore[arg-type]
