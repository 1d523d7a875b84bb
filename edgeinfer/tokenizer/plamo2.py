"""PLaMo 2's vocabularies (model type `plamo2`): of all ways to cut a text into pieces the one with the highest score.

Scores are in ten-thousandths; what no piece fits costs 1000 for each character and becomes its bytes.  Where several
ways are equal the first piece is the longest.  Source: https://github.com/ggml-org/llama.cpp/pull/14560."""

import sys
from collections import defaultdict

import numpy as np

from edgeinfer.errors import FormatError
from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.sentencepiece_model import scores
from edgeinfer.tokenizer.texts import Alphabet, Plain
from edgeinfer.tokenizer.vocabulary import PieceType, Vocabulary, byte_ids

_UNIT = 1e4
_UNKNOWN = 10_000_000  # what a character costs that is in no piece
_MARK = "\ufeff"  # left out where it begins a text


class Plamo2:
    """Turns text without special tokens into ids."""

    space_prefix = False
    add_bos = False
    drops_blanks = False
    alphabet: Alphabet = Plain()

    def __init__(self, file: GgufFile, vocabulary: Vocabulary) -> None:
        found = byte_ids(vocabulary)
        self._bytes = [id for id in found if id is not None]
        if len(self._bytes) < len(found):
            raise FormatError(f"tokenizer.ggml.tokens has no <0x{found.index(None):02X}>")
        costs = np.rint(-_UNIT * scores(file, len(vocabulary.pieces)).astype(np.float64))
        plain = np.flatnonzero((vocabulary.types == PieceType.NORMAL) & (np.abs(costs) < 2 * _UNKNOWN))
        self._pieces: dict[str, tuple[int, int]] = {}  # cost and id
        lengths = defaultdict(set)
        for id in plain.tolist():
            text = vocabulary.pieces[id].decode("utf-8", "surrogateescape")
            if text:
                self._pieces[text] = int(costs[id]), id
                lengths[text[0]].add(len(text))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    def encode(self, raw: bytes, exact: bool) -> list[int]:
        """Ids of `raw`; broken UTF-8 keeps its bytes if `exact`, else it is U+FFFD."""
        text = raw.decode("utf-8", "surrogateescape" if exact else "replace").removeprefix(_MARK)
        best = [0] * (len(text) + 1)  # what the rest from here costs
        chosen = [(0, -1)] * len(text)  # the length and id of the piece here
        for start in range(len(text) - 1, -1, -1):
            best[start] = sys.maxsize
            for length in self._lengths.get(text[start], ()):
                piece = self._pieces.get(text[start : start + length]) if length <= len(text) - start else None
                if piece and (whole := piece[0] + best[start + length]) < best[start]:
                    best[start], chosen[start] = whole, (length, piece[1])
            if (whole := _UNKNOWN + best[start + 1]) < best[start]:
                best[start], chosen[start] = whole, (1, -1)
        ids: list[int] = []
        start = 0
        while start < len(text):
            length, id = chosen[start]
            spelt = text[start : start + length].encode("utf-8", "surrogateescape")
            ids += [id] if id >= 0 else [self._bytes[byte] for byte in spelt]
            start += length
        return ids
