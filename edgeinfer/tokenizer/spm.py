"""SentencePiece vocabularies (model type `llama`): pieces joined by score, bytes where no piece fits.

Source: https://arxiv.org/abs/1808.06226."""

import numpy as np

from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.parts import ForText
from edgeinfer.tokenizer.sentencepiece_model import BPE, Normalizer, make_processor, scores
from edgeinfer.tokenizer.texts import Alphabet, Blanks
from edgeinfer.tokenizer.utf8 import text_runs
from edgeinfer.tokenizer.vocabulary import BLANK, Vocabulary, byte_ids


class Spm:
    """Turns text without special tokens into ids."""

    add_bos = True
    drops_blanks = False
    alphabet: Alphabet = Blanks()

    def __init__(self, file: GgufFile, vocabulary: Vocabulary) -> None:
        self._bytes = byte_ids(vocabulary)
        self._unknown = len(vocabulary.pieces)
        self.space_prefix = vocabulary.add_space_prefix is not False
        self._mergers = _mergers(file, vocabulary, [id for id in self._bytes if id is not None])

    def encode(self, raw: bytes, exact: bool) -> list[int]:
        """Ids of `raw`.  Broken UTF-8 becomes byte tokens, whether or not `exact`."""
        if self.space_prefix:
            raw = b" " + raw
        runs = list(text_runs(raw))  # nothing merges across a broken symbol
        merger = self._mergers.model(run.replace(" ", BLANK.decode()) for run in runs if isinstance(run, str))
        ids: list[int] = []
        for run in runs:
            if isinstance(run, str):
                ids += merger.encode(run)
            else:
                ids += [id for byte in run if (id := self._bytes[byte]) is not None]
        return ids if self._unknown not in ids else [id for id in ids if id != self._unknown]


class Merger:
    """The library's processor of the pieces `ids`, which rise; the number of all pieces stands for what has none."""

    def __init__(self, vocabulary: Vocabulary, ids: np.ndarray, scores: np.ndarray, byte_pieces: list[int]) -> None:
        self._ids = [*ids.tolist(), len(vocabulary.pieces)]
        pieces = [vocabulary.pieces[id] for id in self._ids[:-1]]
        bytes_at = np.searchsorted(ids, byte_pieces).tolist() if len(byte_pieces) == 256 else []
        self._processor = make_processor(pieces, scores[ids], vocabulary.types[ids], BPE, Normalizer(), bytes_at)

    def encode(self, text: str) -> list[int]:
        return [self._ids[place] for place in self._processor.Encode(text)]


def _mergers(file: GgufFile, vocabulary: Vocabulary, byte_pieces: list[int]) -> ForText[Merger]:
    own = scores(file, len(vocabulary.pieces))

    def of_parts(parts: set[str]) -> Merger:
        found = vocabulary.pieces.find(raw for part in parts if b"\0" not in (raw := part.encode()))
        return Merger(vocabulary, np.array(sorted({*found.values(), *byte_pieces}), np.int64), own, byte_pieces)

    def of_all() -> Merger:
        return Merger(vocabulary, np.arange(len(vocabulary.pieces)), own, byte_pieces)

    return ForText(vocabulary.longest, len(vocabulary.pieces), of_parts, of_all)
