"""The bytes that tokens add to a text, one token's or those of all that begin in a given way.

Healing asks for the latter, and to make the bytes of all tokens for it would take longer than the rest of a start.  So
pieces are searched as they lie: what stands at a place in each of them is found out by numpy, for all at once at the
first byte and then for the few that are left."""

import functools
import re
from typing import Protocol

import numpy as np

from edgeinfer.formats.strings import Strings
from edgeinfer.tokenizer.vocabulary import BLANK, PieceType

_NORMAL = int(PieceType.NORMAL)
_BYTE_PIECE = re.compile(rb"<0x([0-9A-Fa-f]{2})>")
_NONE = -1  # instead of a first byte

At = tuple[np.ndarray, np.ndarray]


class Alphabet(Protocol):
    """What the bytes of a piece stand for."""

    def read(self, piece: bytes) -> bytes:
        """All that a piece stands for."""

    def at(self, data: np.ndarray, places: np.ndarray, ends: np.ndarray) -> At:
        """What stands at places of many pieces, each given with the end of its piece in `data`, uint8: the bytes,
        uint8[n], and by how many each is spelt, int8[n].  At an end anything."""


class Plain:
    """Bytes stand for themselves."""

    def read(self, piece: bytes) -> bytes:
        return piece

    def at(self, data: np.ndarray, places: np.ndarray, ends: np.ndarray) -> At:
        return data[places], np.ones(len(places), np.int8)


class Blanks:
    """U+2581 stands for a blank."""

    def read(self, piece: bytes) -> bytes:
        return piece.replace(BLANK, b" ")

    def at(self, data: np.ndarray, places: np.ndarray, ends: np.ndarray) -> At:
        found, sizes = Plain().at(data, places, ends)
        marks = np.flatnonzero(found == BLANK[0])
        for place in range(1, len(BLANK)):
            marks = marks[data[places[marks] + place] == BLANK[place]]
        marks = marks[places[marks] + len(BLANK) <= ends[marks]]
        found[marks], sizes[marks] = ord(" "), len(BLANK)
        return found, sizes


class Texts(dict[int, bytes]):
    """The texts of tokens by their ids: what normal pieces stand for by the `alphabet`, none of control tokens.

    As a dict it has those that were asked for."""

    def __init__(self, pieces: Strings, types: np.ndarray, alphabet: Alphabet) -> None:
        """types: uint8[vocab], of PieceType."""
        super().__init__()
        self._pieces, self._types, self._alphabet = pieces, types.tobytes(), alphabet
        self._odd = np.flatnonzero(types != _NORMAL)

    def __missing__(self, id: int) -> bytes:
        text = self[id] = self._text(self._pieces[id], self._types[id])
        return text

    def _text(self, piece: bytes, kind: int) -> bytes:
        if kind == _NORMAL:
            return self._alphabet.read(piece)
        if kind in (PieceType.CONTROL, PieceType.UNKNOWN, PieceType.UNUSED):
            return b""
        match = _BYTE_PIECE.fullmatch(piece) if kind == PieceType.BYTE else None
        return bytes.fromhex(match[1].decode()) if match else piece

    def beginning_with(self, text: bytes) -> np.ndarray:
        """Rising ids i64[n] of the tokens whose texts begin with `text`, which is not empty."""
        normal, odd = self._searches
        return np.sort(np.concatenate([normal.beginning_with(text), self._odd[odd.beginning_with(text)]]))

    @functools.cached_property
    def _searches(self) -> tuple["Search", "Search"]:
        """For normal pieces, and for the others in their order."""
        odd = Strings.of(self._text(self._pieces[id], self._types[id]) for id in self._odd.tolist())
        return Search(self._pieces, self._alphabet, self._odd), Search(odd, Plain())


class Search:
    """Finds strings by what they stand for, but for those at the places `without`."""

    def __init__(self, strings: Strings, alphabet: Alphabet, without: np.ndarray | None = None) -> None:
        self._strings, self._alphabet = strings, alphabet
        starts, ends = strings.starts, strings.ends
        found, sizes = alphabet.at(strings.data, starts, ends)
        self._firsts = np.where(starts < ends, found, np.int16(_NONE))
        self._sizes = sizes
        if without is not None:
            self._firsts[without] = _NONE

    def beginning_with(self, text: bytes) -> np.ndarray:
        """Rising places i64[n]; `text` is not empty."""
        found = np.flatnonzero(self._firsts == text[0])
        places, ends = self._strings.starts[found] + self._sizes[found], self._strings.ends[found]
        for byte in text[1:]:
            bytes_there, sizes = self._alphabet.at(self._strings.data, places, ends)
            stay = np.flatnonzero((bytes_there == byte) & (places < ends))
            found, places, ends = found[stay], places[stay] + sizes[stay], ends[stay]
        return found
