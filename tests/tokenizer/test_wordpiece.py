"""WordPiece vocabularies: how words are cut, and the longest pieces."""

from collections.abc import Callable

import pytest

from edgeinfer.tokenizer import Tokenizer

CONTROL = 3
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
PIECES = ["▁a", "▁ab", "b", "bc", "▁,", "▁!", "▁世", "▁界", "▁$", "▁€", "▁d"]


def make(write: Callable[..., object], pieces: list[str], **more: object) -> Tokenizer:
    types = [CONTROL] * len(SPECIAL) + [1] * len(pieces)
    named = {"unknown_token_id": 1, "cls_token_id": 2, "seperator_token_id": 3, **more}
    return Tokenizer.from_gguf(write(model="bert", tokens=SPECIAL + pieces, token_type=types, **named))  # type: ignore[arg-type]


@pytest.fixture
def bert(write: Callable[..., object]) -> Tokenizer:
    return make(write, PIECES)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a", "▁a"),
        ("abc", "[UNK]"),
        ("abbc", "▁ab bc"),
        ("  A\tab\u2003Á ", "▁a ▁ab ▁a"),
        ("a\u0301 a\0b", "▁a ▁ab"),
        ("a,b!", "▁a ▁, [UNK] ▁!"),
        ("世界a", "▁世 ▁界 ▁a"),
        ("a$a€", "▁a ▁$ [UNK]"),
        ("Ｄ", "[UNK]"),
        ("a\u00adb\ufffd", "▁ab"),
        ("", ""),
    ],
)
def test_words(bert: Tokenizer, text: str, pieces: str) -> None:
    assert [bert.pieces[id].decode() for id in bert.encode(text, add_special=False)] == pieces.split()


def test_texts_stand_between_cls_and_sep(bert: Tokenizer) -> None:
    assert bert.encode("a") == [2, 4, 3]
    assert bert.encode("a[SEP]a", parse_special=True) == [2, 4, 3, 4, 3]


def test_bytes_that_are_no_text_are_left_out(bert: Tokenizer) -> None:
    assert bert.encode(b"a\xffb\xc3", add_special=False, exact=True) == bert.encode("ab", add_special=False)


def test_each_word_comes_back_behind_a_blank(bert: Tokenizer) -> None:
    assert bert.decode(bert.encode("Ab a, d")) == b" ab a , d"


def test_a_long_text_without_blanks_takes_linear_time(bert: Tokenizer) -> None:
    assert len(bert.encode("ab" + "bc" * 100_000, add_special=False)) == 100_001


@pytest.mark.parametrize(
    ("flags", "pieces"),
    [  # as llama.cpp has them
        ({}, "▁a ▁a ▁a ▁a"),
        ({"lowercase": True}, "▁a ▁a ▁a ▁a"),
        ({"lowercase": False}, "▁a ▁A ▁ä ▁A ̈"),
        ({"lowercase": False, "strip_accents": True}, "▁a ▁A ▁a ▁A"),
        ({"strip_accents": False}, "▁a ▁a ▁ä ▁a ̈"),
    ],
)
def test_capital_letters_and_marks_may_stay(write: Callable[..., object], flags: dict[str, bool], pieces: str) -> None:
    keys = {f"normalizer.{name}": value for name, value in flags.items()}
    bert = make(write, ["▁a", "▁A", "▁ä", "▁Ä", "\u0308"], **keys)
    assert [bert.pieces[id].decode() for id in bert.encode("a A ä A\u0308", add_special=False)] == pieces.split()
