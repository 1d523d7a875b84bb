"""Byte pairs over lines: 0 <bos>, 1..256 bytes, then pieces."""

from collections.abc import Callable, Sequence

import pytest

from edgeinfer.tokenizer import Tokenizer

Make = Callable[..., Tokenizer]
LETTERS = ["a", "b", "▁", "ab", "▁a", "▁ab", "\n\n", "ba"]
MERGES = ["a b", "▁ a", "▁ ab"]
A, B, BLANK, AB, BLANK_A, BLANK_AB, BREAKS, BA = range(257, 265)


@pytest.fixture
def lines(write: Callable[..., object]) -> Make:
    def make(pieces: Sequence[str] = LETTERS, merges: Sequence[str] = MERGES, **keys: object) -> Tokenizer:
        tokens = ["<bos>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
        types = [3] + [6] * 256 + [1] * len(pieces)
        path = write(model="gemma4", tokens=tokens, token_type=types, merges=list(merges), bos_token_id=0, **keys)
        return Tokenizer.from_gguf(path)  # type: ignore[arg-type]

    return make


def plain(tokenizer: Tokenizer, text: str | bytes, exact: bool = False) -> list[int]:
    return tokenizer.encode(text, add_special=False, exact=exact)


def test_merges_cross_blanks(lines: Make) -> None:
    assert plain(lines(), "ab ab a") == [AB, BLANK_AB, BLANK_A]
    assert lines().decode([AB, BLANK_AB, BLANK_A]) == b"ab ab a"


def test_merges_do_not_cross_lines(lines: Make) -> None:
    merges = [*MERGES, "b \n", "\n \n"]
    tokenizer = lines([*LETTERS, "\n", "b\n", "\n\n\n\n"], merges)
    assert plain(tokenizer, "b\nb") == [B, 265, B]
    assert plain(tokenizer, "b\n\n\nb") == [B, BREAKS, 265, B]


def test_a_row_of_line_breaks_needs_no_merges(lines: Make) -> None:
    assert plain(lines(), "a\n\nb") == [A, BREAKS, B]
    assert plain(lines(), "\n") == [1 + 0x0A]


def test_other_text_needs_merges(lines: Make) -> None:
    assert plain(lines(), "ba") == [B, A]


def test_characters_without_a_piece_become_bytes(lines: Make) -> None:
    assert plain(lines(), "aéb") == [A, 1 + 0xC3, 1 + 0xA9, B]
    assert lines().decode(plain(lines(), "éa世 b")) == "éa世 b".encode()


def test_broken_utf8(lines: Make) -> None:
    assert plain(lines(), b"a\xffb", exact=True) == [A, 1 + 0xFF, B]
    assert plain(lines(), b"a\xffb") == [A, 1 + 0xEF, 1 + 0xBF, 1 + 0xBD, B]


def test_bos_is_added_even_if_the_file_says_no(lines: Make) -> None:
    assert lines(add_bos_token=False).encode("a") == [0, A]


def test_some_pre_tokenizers_mean_this_model(write: Callable[..., object]) -> None:
    keys = {"tokens": ["a", "b", "ab", "▁", "<0x0A>"], "token_type": [1] * 5, "merges": ["a b"]}
    tokenizer = Tokenizer.from_gguf(write(model="gpt2", pre="sarvam-moe", **keys))  # type: ignore[arg-type]
    assert tokenizer.encode("ab a\né") == [2, 3, 0, 4]
    assert not tokenizer.add_bos
