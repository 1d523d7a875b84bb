"""The tokenizer of a GGUF file: text to ids and ids to bytes, from the file's metadata alone."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from edgeinfer.errors import RequestError
from edgeinfer.formats import gguf
from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.models import Model, make_model
from edgeinfer.tokenizer.special import SpecialTokens, merged
from edgeinfer.tokenizer.texts import Texts
from edgeinfer.tokenizer.utf8 import as_bytes
from edgeinfer.tokenizer.vocabulary import PieceType, read_vocabulary

_FALCON_BOS = 11  # taken by llama.cpp where a vocabulary of bytes wants a BOS and the file names none


class Tokenizer:
    """Made by `from_gguf`; may be used from several threads.

    `pieces` are the tokens as the file spells them, `texts` what each adds to a text, `special_tokens` the texts,
    longest first, of the control and user-defined ones.  `eog_ids` are the ids that end a generation; `bos_id` and
    `eos_id` may be None."""

    def __init__(self, file: GgufFile, pre: str | None = None) -> None:
        with file.naming():
            vocabulary = read_vocabulary(file)
            self._model: Model = make_model(file, vocabulary, pre)
        self._special = SpecialTokens(vocabulary)
        controls = np.isin(vocabulary.types, (PieceType.CONTROL, PieceType.UNKNOWN))
        self._controls = frozenset(np.flatnonzero(controls).tolist())
        self.pieces = vocabulary.pieces
        self.texts = Texts(vocabulary.pieces, vocabulary.types, self._model.alphabet)
        self.n_vocab = len(vocabulary.pieces)
        self.bos_id, self.eos_id, self.eog_ids = vocabulary.bos_id, vocabulary.eos_id, vocabulary.eog_ids
        self.add_bos = self._model.add_bos if vocabulary.add_bos is None else vocabulary.add_bos
        self.add_eos = vocabulary.add_eos
        if self.bos_id is None and self.add_bos and vocabulary.model == "gpt2" and self.n_vocab > _FALCON_BOS:
            self.bos_id = _FALCON_BOS

    @classmethod
    def from_gguf(cls, source: str | os.PathLike[str] | GgufFile, pre: str | None = None) -> "Tokenizer":
        """The tokenizer of a file or an open file; no weights are needed.  `pre` overrides tokenizer.ggml.pre.

        FormatError if the vocabulary is missing or malformed, UnsupportedError if its kind is not known here."""
        if isinstance(source, GgufFile):
            return cls(source, pre)
        with gguf.open(source) as file:
            return cls(file, pre)

    @property
    def special_tokens(self) -> Mapping[bytes, int]:
        return self._special.ids

    def encode(
        self, text: str | bytes, add_special: bool = True, parse_special: bool = False, *, exact: bool = False
    ) -> list[int]:
        """The ids of `text`, with BOS and EOS around them where the vocabulary wants them and `add_special` allows it.

        What spells a control token becomes one only if `parse_special`; user-defined tokens are always found.  Bytes
        that are not UTF-8 become byte tokens in SentencePiece vocabularies.  In byte-level ones they are read as
        U+FFFD, as llama.cpp does, or kept if `exact`: then decode gives them back, where there are tokens for them."""
        return self.encode_segments([(text, parse_special)], add_special, exact=exact)

    def encode_segments(
        self, segments: Sequence[tuple[str | bytes, bool]], add_special: bool = True, *, exact: bool = False
    ) -> list[int]:
        """The ids of the segments (text, parse_special) as if they were one text, but control tokens are found only in
        segments with parse_special."""
        raw, spans = merged([(as_bytes(text), parse) for text, parse in segments])
        ids = [self.bos_id] if add_special and self.add_bos and self.bos_id is not None else []
        for part in self._special.cut(raw, spans):
            ids += [part] if isinstance(part, int) else self._model.encode(part, exact)
        if add_special and self.add_eos and self.eos_id is not None:
            ids.append(self.eos_id)
        return ids

    def decode(self, ids: Iterable[int], special: bool = False) -> bytes:
        """The bytes of `ids`, which may end amid a character.  RequestError if an id is not in 0..n_vocab-1.

        Without the blank that the vocabulary puts before a text.  Control tokens are left out, or spelt out if
        `special`; then the text is as llama.cpp shows it: with some vocabularies it drops blanks before some signs."""
        if special:
            parts = list(map(self.token_bytes, ids))
        else:
            parts = [self.texts[id] for id in ids if not self.is_control(id)]
        raw = b"".join(parts)
        if self._model.space_prefix and parts and parts[0].startswith(b" "):
            raw = raw[1:]
        return _without_blanks(raw) if special and self._model.drops_blanks else raw

    def is_control(self, id: int) -> bool:
        """Whether the token stands for no text.  RequestError if `id` is not in 0..n_vocab-1."""
        if not 0 <= id < self.n_vocab:
            raise RequestError(f"token id {id} is not in 0..{self.n_vocab - 1}")
        return id in self._controls

    def token_bytes(self, id: int) -> bytes:
        """The bytes of one token; a control token's are its spelling.  RequestError if `id` is not in 0..n_vocab-1."""
        return self.pieces[id] if self.is_control(id) else self.texts[id]


def _without_blanks(raw: bytes) -> bytes:
    """What llama.cpp's `clean_spaces` leaves: no blank before ? ! . , nor around a lone ' nor before 's 'm 're 've."""
    raw = re.sub(rb" (?=[?!.,])", b"", raw)
    raw = re.sub(rb" ' ", b"'", raw)
    return re.sub(rb" (?='(?:[sm]|re|ve))", b"", raw)
