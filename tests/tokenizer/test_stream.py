"""Text streams: whole characters, stop strings across tokens, the same however tokens divide the text."""

import itertools
from collections.abc import Callable, Sequence

import pytest

from edgeinfer.errors import RequestError
from edgeinfer.tokenizer import TextStream, Tokenizer

Make = Callable[..., Tokenizer]
CONTROL = 3


def run(stream: TextStream, ids: Sequence[int]) -> list[str]:
    return [*map(stream.push, ids), stream.finish()]


def test_characters_come_whole_and_at_once(bpe: Make) -> None:
    assert run(TextStream(bpe()), "é😀!".encode()) == ["", "é", "", "", "", "😀", "!", ""]


def test_incomplete_and_broken_characters(bpe: Make) -> None:
    assert run(TextStream(bpe()), b"a\xf0\x9f\x98") == ["a", "", "", "", "\ufffd"]
    assert "".join(run(TextStream(bpe()), b"\xff\xe2\x82b")) == "\ufffd\ufffdb"


def test_control_tokens_print_nothing(bpe: Make) -> None:
    tokenizer = bpe(special=[("<x>", CONTROL)])
    assert run(TextStream(tokenizer), [97, 256, 98]) == ["a", "", "b", ""]
    assert run(TextStream(tokenizer, special=True), [97, 256, 98]) == ["a", "<x>", "b", ""]


def test_blank_of_a_first_piece_is_kept(spm: Make) -> None:
    assert run(TextStream(spm(["▁a"])), [259, 259]) == [" a", " a", ""]


def test_beginning_of_a_stop_string_is_held_back(bpe: Make) -> None:
    stream = TextStream(bpe(), ("ha be",))
    assert [stream.push(byte) for byte in b"alpha bo"] == ["a", "l", "p", "", "", "", "", "ha bo"]
    assert [stream.push(byte) for byte in b" ha be!"] == [" ", "", "", "", "", "", ""]
    assert stream.stopped == "ha be"
    assert (stream.push(97), stream.finish(), stream.text) == ("", "", "alpha bo ")


def test_what_is_held_comes_at_the_end(bpe: Make) -> None:
    stream = TextStream(bpe(), ("abc",))
    assert run(stream, b"xab") == ["x", "", "", "ab"]
    assert stream.stopped is None


def test_stop_string_of_the_replaced_tail(bpe: Make) -> None:
    stream = TextStream(bpe(), ("\ufffd",))
    assert "".join(run(stream, b"a\xf0\x9f")) == "a"
    assert stream.stopped == "\ufffd"


def test_first_complete_stop_string_counts(bpe: Make) -> None:
    stream = TextStream(bpe(), ("bcd", "c"))
    assert "".join(run(stream, b"abcd")) == "ab"
    assert stream.stopped == "c"


def test_of_stop_strings_that_end_together_the_longest_counts(bpe: Make) -> None:
    stream = TextStream(bpe(), ("c", "bc"))
    assert "".join(run(stream, b"abc")) == "a"
    assert stream.stopped == "bc"


@pytest.mark.parametrize("stops", [("ab",), ("aab", "ba"), ("b" * 3, "ab"), ("a",), ("é a",)])
def test_division_into_tokens_makes_no_difference(bpe: Make, stops: tuple[str, ...]) -> None:
    whole = bpe(["a b", "b a", "a a", "b b", "ba b", "Ġ a"])
    for letters in itertools.product(["a", "b", "é", " "], repeat=5):
        text = "".join(letters)
        by_byte, by_token = TextStream(whole, stops), TextStream(whole, stops)
        run(by_byte, text.encode())
        run(by_token, whole.encode(text))
        assert (by_byte.text, by_byte.stopped) == (by_token.text, by_token.stopped)
        assert by_byte.stopped or by_byte.text == text
        assert not any(stop in by_byte.text for stop in stops)


def test_empty_stop_string(bpe: Make) -> None:
    with pytest.raises(RequestError, match="empty"):
        TextStream(bpe(), ("",))
