"""Texts of tokens: what the search finds, against every token looked at."""

import numpy as np
import pytest

from edgeinfer.formats.strings import Strings
from edgeinfer.tokenizer.byte_alphabet import CHARACTERS, ByteAlphabet
from edgeinfer.tokenizer.rwkv import Escapes
from edgeinfer.tokenizer.texts import Alphabet, Blanks, Plain, Texts
from edgeinfer.tokenizer.vocabulary import BLANK

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
PARTS = {  # what pieces are made of: what is spelt, and what looks like the beginning or the end of it
    Plain: [b"a", b"b", b"\0", b"\xff"],
    Blanks: [b"a", b" ", BLANK, BLANK[:1], BLANK[:2], BLANK[1:], b"\xff"],
    ByteAlphabet: [b"a", b" ", "Ġ".encode(), "é".encode(), "\x80\xa0\xad".encode(), b"\xc2", b"\xc5", b"\x80", BLANK]
    + [CHARACTERS[byte].encode() for byte in (0, 32, 127, 160, 173, 200, 255)],
    Escapes: [b"a", b"\\n", b"\\x61", b"\\x6", b"\\", b"x", b"\\\\", b"n", b"\xff"],
}


def pieces_of(parts: list[bytes], count: int) -> list[bytes]:
    random = np.random.default_rng(5)
    return [
        b"".join(parts[part] for part in random.integers(0, len(parts), random.integers(0, 6))) for _ in range(count)
    ]


@pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.__name__)
def test_beginning_with(kind: type[Alphabet]) -> None:
    alphabet = kind()
    pieces = pieces_of(PARTS[kind], 600)
    types = np.random.default_rng(6).choice([NORMAL, NORMAL, NORMAL, CONTROL, USER_DEFINED, UNUSED], len(pieces))
    texts = Texts(Strings.of(pieces), types.astype(np.uint8), alphabet)
    whole = [texts[id] for id in range(len(pieces))]
    prefixes = {text[:length] for text in whole for length in range(1, 5)} - {b""} | {b"absent", b"\xe2"}
    assert len(prefixes) > 50
    for prefix in prefixes:
        want = [id for id, text in enumerate(whole) if text.startswith(prefix)]
        found = texts.beginning_with(prefix)
        assert found.dtype == np.int64 and found.tolist() == want, prefix


def test_a_piece_that_the_next_one_would_complete() -> None:
    """The length field behind a piece is no part of it, even where it goes on as the piece's last character would."""
    for alphabet, piece, behind in ((Blanks(), BLANK[:1], 0x8196), (ByteAlphabet(), b"\xc4", 0x80)):
        raw = bytes(8) + piece + behind.to_bytes(8, "little") + b"x" * behind
        strings = Strings(np.frombuffer(raw, np.uint8), np.array([0, 8 + len(piece), len(raw)]))
        texts = Texts(strings, np.full(2, NORMAL, np.uint8), alphabet)
        assert texts[0] == piece and texts.beginning_with(piece).tolist() == [0]
        assert texts.beginning_with(b" ").tolist() == texts.beginning_with(b"\0").tolist() == []


def test_kinds_of_pieces() -> None:
    pieces = ["▁a", "<s>", "▁b", "▁c", "<0x20>", "<0x2>", "<unk>"]
    types = np.array([NORMAL, CONTROL, USER_DEFINED, UNUSED, BYTE, BYTE, UNKNOWN], np.uint8)
    texts = Texts(Strings.of(piece.encode() for piece in pieces), types, Blanks())
    assert [texts[id] for id in range(7)] == [b" a", b"", "▁b".encode(), b"", b" ", b"<0x2>", b""]
    assert texts.beginning_with(b" ").tolist() == [0, 4]
    assert texts.beginning_with(b"<").tolist() == [5]
