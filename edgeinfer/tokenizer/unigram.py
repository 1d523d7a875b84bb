"""Unigram vocabularies (model type `t5`): of all ways to cut a text into pieces the one with the highest score.

Source: https://arxiv.org/abs/1804.10959."""

import numpy as np

from edgeinfer.errors import FormatError
from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.sentencepiece_model import UNIGRAM, Normalizer, make_processor, scores
from edgeinfer.tokenizer.texts import Alphabet, Blanks
from edgeinfer.tokenizer.vocabulary import Vocabulary


class Unigram:
    """Turns text without special tokens into ids."""

    add_bos = False
    drops_blanks = False
    alphabet: Alphabet = Blanks()

    def __init__(self, file: GgufFile, vocabulary: Vocabulary) -> None:
        self.space_prefix = vocabulary.add_space_prefix is not False
        normalizer = Normalizer(
            add_prefix=self.space_prefix,
            merge_blanks=file.get("tokenizer.ggml.remove_extra_whitespaces", bool, False),
            charsmap=_charsmap(file),
        )
        self._own_unknown = len(vocabulary.pieces)
        own = scores(file, self._own_unknown)
        self._processor = make_processor(list(vocabulary.pieces), own, vocabulary.types, UNIGRAM, normalizer)
        self._unknown = [] if vocabulary.unknown_id is None else [vocabulary.unknown_id]

    def encode(self, raw: bytes, exact: bool) -> list[int]:
        """Ids of `raw`, in which broken UTF-8 is read as U+FFFD, whether or not `exact`."""
        ids: list[int] = self._processor.Encode(raw)
        if self._own_unknown not in ids:
            return ids
        return [new for id in ids for new in (self._unknown if id == self._own_unknown else [id])]


def _charsmap(file: GgufFile) -> bytes:
    """The compiled rules of the file, empty if there are none.  FormatError if the library would read beyond them.

    They are a size in bytes, a double array of so many (https://github.com/s-yata/darts-clone), and strings that each
    end with a zero.  Units of the array lead to others in the 256 units around a place; those are values that show
    where a string begins."""
    found = file.array("tokenizer.ggml.precompiled_charsmap", int, None)
    raw = b"" if found is None else found.astype("u1").tobytes()
    if not raw:
        return raw
    size = int.from_bytes(raw[:4], "little")
    strings = raw[4 + size :]
    if size % 1024 or not size or not strings.endswith(b"\0"):
        raise FormatError("tokenizer.ggml.precompiled_charsmap is truncated")
    units = np.frombuffer(raw, "<u4", size // 4, 4).astype(np.int64)
    inner = units < 1 << 31
    places = np.arange(len(units)) ^ units >> 10 << (units >> 6 & 8)
    if (places[inner] >= len(units)).any():
        raise FormatError("tokenizer.ggml.precompiled_charsmap leads out of its array")
    values = units[places[inner & (units >> 8 & 1 == 1)]] & 0x7FFFFFFF
    if (values >= len(strings)).any():
        raise FormatError("tokenizer.ggml.precompiled_charsmap leads out of its strings")
    return raw
