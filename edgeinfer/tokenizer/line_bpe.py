"""Byte-pair encoding over whole lines, with U+2581 for blanks (model type `gemma4`), and bytes where no piece fits.

Source: the files of Gemma 4 and https://arxiv.org/abs/1508.07909."""

import re

from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.bpe import mergers
from edgeinfer.tokenizer.texts import Alphabet, Blanks, Plain, Search
from edgeinfer.tokenizer.utf8 import repaired
from edgeinfer.tokenizer.vocabulary import BLANK, Vocabulary, byte_ids

_BREAKS = re.compile("(\n+)")  # no merge crosses the border of a line
_BROKEN = re.compile("([\udc80-\udcff]+)")


class LineBpe:
    """Turns text without special tokens into ids."""

    space_prefix = False
    add_bos = False
    drops_blanks = False
    alphabet: Alphabet = Blanks()

    def __init__(self, file: GgufFile, vocabulary: Vocabulary) -> None:
        self._bytes = byte_ids(vocabulary)
        self._unknown = len(vocabulary.pieces)
        begin = Search(vocabulary.pieces, Plain()).beginning_with(b"\n").tolist()
        self._breaks = {piece.decode(): id for id in begin if not (piece := vocabulary.pieces[id]).strip(b"\n")}
        self._mergers = mergers(file, vocabulary)

    def encode(self, raw: bytes, exact: bool) -> list[int]:
        """Ids of `raw`.  Broken UTF-8 keeps its bytes if `exact`, and otherwise is read as llama.cpp does: as U+FFFD.
        Bytes that the vocabulary has no token for are dropped."""
        text = raw.decode("utf-8", "surrogateescape") if exact else repaired(raw)
        ids = []
        for place, part in enumerate(_BROKEN.split(text)):  # broken bytes have the odd places
            ids += self._byte_pieces(part.encode("utf-8", "surrogateescape")) if place % 2 else self._encode(part)
        return ids

    def _encode(self, text: str) -> list[int]:
        """A row of line breaks is one token where there is one: not all files have the pairs that make it."""
        ids = []
        for part in _BREAKS.split(text.replace(" ", BLANK.decode())):
            if part in self._breaks:
                ids.append(self._breaks[part])
            elif part:
                ids += self._merged(part)
        return ids

    def _merged(self, part: str) -> list[int]:
        ids = []
        raw = part.encode()
        for token in self._mergers.model([part]).tokenize(part):
            start, end = token.offsets  # bytes
            ids += [token.id] if token.id != self._unknown else self._byte_pieces(raw[start:end])
        return ids

    def _byte_pieces(self, raw: bytes) -> list[int]:
        return [id for byte in raw if (id := self._bytes[byte]) is not None]
