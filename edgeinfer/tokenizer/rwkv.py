"""RWKV vocabularies (model type `rwkv`): bytes, cut from the left, each time the longest piece that fits.

The file spells bytes that are not printable with escapes: \\xNN, \\t, \\n, \\r; before any other character a backslash
stands for nothing.  Source: https://github.com/BlinkDL/RWKV-LM/blob/main/RWKV-v5/tokenizer/rwkv_tokenizer.py."""

import re
from collections import defaultdict

import numpy as np

from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.texts import Alphabet, At, Plain
from edgeinfer.tokenizer.vocabulary import PieceType, Vocabulary

_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_LONGEST = 4  # bytes of an escape
_LETTERS = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}
_HEAD = 2  # bytes that tell which lengths are worth trying


class Escapes:
    """What follows a backslash."""

    def read(self, piece: bytes) -> bytes:
        return _ESCAPE.sub(_meant, piece)

    def at(self, data: np.ndarray, places: np.ndarray, ends: np.ndarray) -> At:
        found, sizes = Plain().at(data, places, ends)
        for number in np.flatnonzero(found == ord("\\")).tolist():
            if escape := _ESCAPE.match(data[places[number] : ends[number]][:_LONGEST].tobytes()):
                found[number], sizes[number] = _meant(escape)[0], escape.end()
        return found, sizes


class Rwkv:
    """Turns text without special tokens into ids."""

    space_prefix = False
    add_bos = False
    drops_blanks = False
    alphabet: Alphabet = Escapes()

    def __init__(self, file: GgufFile, vocabulary: Vocabulary) -> None:
        normal = np.flatnonzero(vocabulary.types == PieceType.NORMAL).tolist()
        self._ids = {self.alphabet.read(vocabulary.pieces[id]): id for id in normal}
        self._ids.pop(b"", None)
        lengths = defaultdict(set)
        for text in self._ids:
            lengths[text[:_HEAD]].add(len(text))
        self._lengths = {head: sorted(found, reverse=True) for head, found in lengths.items()}
        self._unknown = [] if vocabulary.unknown_id is None else [vocabulary.unknown_id]

    def encode(self, raw: bytes, exact: bool) -> list[int]:
        """Ids of `raw`, which may be any bytes, whether or not `exact`."""
        ids: list[int] = []
        start = 0
        while start < len(raw):
            head = raw[start : start + _HEAD]
            for length in (*self._lengths.get(head, ()), 1):
                if (id := self._ids.get(raw[start : start + length])) is not None:
                    ids.append(id)
                    break
            else:
                ids += self._unknown
            start += length
        return ids


def _meant(escape: re.Match[bytes]) -> bytes:
    return bytes.fromhex(escape[1].decode()) if escape[1] else _LETTERS.get(escape[2], escape[2])
