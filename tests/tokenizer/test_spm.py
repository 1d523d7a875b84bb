"""SentencePiece vocabularies: bytes have the ids 3..258, pieces follow from 259, the first with the highest score."""

from collections.abc import Callable

import pytest

from edgeinfer.errors import FormatError
from edgeinfer.tokenizer import Tokenizer

Make = Callable[..., Tokenizer]
PLAIN = {"add_space_prefix": False, "add_bos_token": False}


def test_pieces_merge_by_score(spm: Make) -> None:
    tokenizer = spm(["bc", "ab", "a", "b", "c"], **PLAIN)
    assert tokenizer.encode("abc") == [261, 259]
    assert tokenizer.encode("ab") == [260]


def test_equal_scores_merge_from_the_left(spm: Make) -> None:
    assert spm(["aa", "a"], **PLAIN).encode("aaaaa") == [259, 259, 260]
    assert spm(["bc", "ab", "a", "b", "c"], scores=[-1.0] * 5, **PLAIN).encode("abc") == [260, 263]


def test_text_without_a_piece_becomes_bytes(spm: Make) -> None:
    assert spm(["a"], **PLAIN).encode("aé") == [259, 3 + 0xC3, 3 + 0xA9]


def test_blanks_are_kept_and_prefixed(spm: Make) -> None:
    tokenizer = spm(["▁a", "▁", "a"])
    assert tokenizer.encode("a  a ") == [1, 259, 260, 259, 260]
    assert tokenizer.decode(tokenizer.encode("a  a ")) == b"a  a "
    assert spm(["▁a", "▁", "a"], **PLAIN).encode("a a") == [261, 259]


def test_prefix_after_each_special_token(spm: Make) -> None:
    tokenizer = spm(["▁a", "▁", "a"])
    assert tokenizer.encode("a</s>a", parse_special=True) == [1, 259, 2, 259]
    assert tokenizer.decode([1, 259, 2, 259]) == b"a a"


@pytest.mark.parametrize(
    "raw", [b"\xff", b"a\xc3(", b"ok\xfe\xffok", b"\xed\xa0\x80", b"\xf0\x9f\x98", bytes(range(256))]
)
def test_broken_utf8_comes_back(spm: Make, raw: bytes) -> None:
    tokenizer = spm(["▁a", "a", "ok", "▁"])
    assert tokenizer.decode(tokenizer.encode(raw)) == raw


def test_no_merge_crosses_a_broken_symbol(spm: Make) -> None:
    assert spm(["ab", "a", "b"], **PLAIN).encode(b"a\x80b") == [260, 3 + 0x80, 261]


def test_control_text_is_never_a_control_token(spm: Make) -> None:
    tokenizer = spm(["<s", ">", "<", "s"], **PLAIN)  # "<s" and ">" would make "<s>"
    assert 1 not in tokenizer.encode("<s>")


def test_equal_and_empty_pieces(spm: Make) -> None:
    assert spm(["a", "", "a"], **PLAIN).encode("aa") == [261, 261]


@pytest.mark.parametrize("piece", ["\0", "b\0"])
def test_piece_with_a_zero_byte(spm: Make, piece: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert spm([piece, "a"], **PLAIN).encode("a\0") == [260, 3]
    assert capfd.readouterr() == ("", "")


def test_byte_tokens_twice_and_byte_tokens_that_are_none(spm: Make) -> None:
    tokenizer = spm(["a", "b"], [("<0x41>", 6), ("byte", 6)], **PLAIN)
    assert tokenizer.encode("aA") == [259, 261]


def test_long_piece(spm: Make) -> None:
    """A piece whose length takes more than one byte on the wire."""
    assert spm(["a" * 300, "a"], **PLAIN).encode("a") == [260]


def test_without_byte_tokens_unknown_text_is_dropped(write: Callable[..., object]) -> None:
    keys = {"tokens": ["<unk>", "a"], "token_type": [2, 1], "scores": [0.0, 0.0]}
    assert Tokenizer.from_gguf(write(model="llama", **PLAIN, **keys)).encode("aéa") == [1, 1]  # type: ignore[arg-type]


def test_scores_must_fit(write: Callable[..., object]) -> None:
    keys = {"tokens": ["a", "b"], "token_type": [1, 1], "scores": [0.0]}
    with pytest.raises(FormatError, match="scores has 1 values for 2"):
        Tokenizer.from_gguf(write(model="llama", **keys))  # type: ignore[arg-type]
