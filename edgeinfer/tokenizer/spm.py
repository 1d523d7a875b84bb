"""SentencePiece vocabularies (model type `llama`): pieces joined by score, bytes where no piece fits.

Source: https://arxiv.org/abs/1808.06226."""

from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.sentencepiece_model import BPE, Normalizer, make_processor
from edgeinfer.tokenizer.utf8 import text_runs
from edgeinfer.tokenizer.vocabulary import BLANK, Vocabulary, byte_ids


class Spm:
    """Turns text without special tokens into ids."""

    add_bos = True
    drops_blanks = False

    def __init__(self, file: GgufFile, vocabulary: Vocabulary) -> None:
        self._bytes = byte_ids(vocabulary)
        self._unknown = len(vocabulary.pieces)
        self.space_prefix = vocabulary.add_space_prefix is not False
        all_bytes = [id for id in self._bytes if id is not None] if None not in self._bytes else []
        self._processor = make_processor(file, vocabulary, BPE, Normalizer(), all_bytes)

    def encode(self, raw: bytes, exact: bool) -> list[int]:
        """Ids of `raw`.  Broken UTF-8 becomes byte tokens, whether or not `exact`."""
        if self.space_prefix:
            raw = b" " + raw
        ids: list[int] = []
        for run in text_runs(raw):  # nothing merges across a broken symbol
            if isinstance(run, str):
                ids += self._processor.Encode(run)
            else:
                ids += [id for byte in run if (id := self._bytes[byte]) is not None]
        return ids if self._unknown not in ids else [id for id in ids if id != self._unknown]

    def piece_bytes(self, piece: bytes) -> bytes:
        return piece.replace(BLANK, b" ")
