"""RWKV vocabularies: the longest piece, and pieces spelt with escapes."""

from collections.abc import Callable, Sequence

import pytest

from edgeinfer.tokenizer import Tokenizer

Make = Callable[..., Tokenizer]


@pytest.fixture
def rwkv(write: Callable[..., object]) -> Make:
    """0 <s>, then `pieces`."""

    def make(pieces: Sequence[str], **keys: object) -> Tokenizer:
        tokens = ["<s>", *pieces]
        types = [3] + [1] * len(pieces)
        return Tokenizer.from_gguf(write(model="rwkv", tokens=tokens, token_type=types, **keys))  # type: ignore[arg-type]

    return make


def test_the_longest_piece_wins_from_the_left(rwkv: Make) -> None:
    tokenizer = rwkv(["a", "b", "c", "ab", "bcab", "abca"])
    assert tokenizer.encode("abcab") == [6, 2]
    assert tokenizer.encode("abcb") == [4, 3, 2]
    assert tokenizer.encode("bcab") == [5]


def test_escapes(rwkv: Make) -> None:
    tokenizer = rwkv(["\\x00\\xff", "\\n", "\\t\\r", "\\\\", "\\'", "\\x5cn", "\\x0"])
    assert tokenizer.encode(b"\0\xff\n\t\r\\'\\n") == [1, 2, 3, 4, 5, 6]
    assert tokenizer.decode([1, 2, 3, 4, 5, 6]) == b"\0\xff\n\t\r\\'\\n"
    assert tokenizer.decode([7]) == b"x0"


def test_any_bytes_come_back(rwkv: Make) -> None:
    tokenizer = rwkv([f"\\x{byte:02x}" for byte in range(256)] + ["é", "ab"])
    raw = bytes(range(256)) + "éab".encode() + b"\xc3"
    assert tokenizer.decode(tokenizer.encode(raw)) == raw
    assert tokenizer.encode("é") == [257]


def test_bytes_without_a_piece(rwkv: Make) -> None:
    assert rwkv(["a"]).encode("aba") == [1, 1]
    assert rwkv(["a"], unknown_token_id=0).encode("aba") == [1, 0, 1]


def test_control_tokens_are_no_text(rwkv: Make) -> None:
    tokenizer = rwkv(["<", "s", ">"])
    assert tokenizer.encode("<s>") == [1, 2, 3]
    assert tokenizer.encode("<s>", parse_special=True) == [0]


def test_empty_pieces_are_never_found(rwkv: Make) -> None:
    assert rwkv(["", "a"]).encode("aa") == [2, 2]
