"""Byte-level byte-pair encoding (model type `gpt2`): a pre-tokenizer cuts words, then the file's pairs are merged.

Source: https://github.com/openai/gpt-2/blob/master/src/encoder.py."""

import contextlib
import gc
import re
from collections.abc import Iterator

import numpy as np
from tokenizers import Regex, Tokenizer, pre_tokenizers
from tokenizers.models import BPE

from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.byte_alphabet import CHARACTERS, from_alphabet
from edgeinfer.tokenizer.pretokenizers import PreTokenizer
from edgeinfer.tokenizer.utf8 import repaired
from edgeinfer.tokenizer.vocabulary import Vocabulary

_SURROGATE = re.compile("[\ud800-\udfff]")
_BLANK = ord(" ")
_UNKNOWN = "\0"  # not of the byte alphabet: what a byte without a token becomes, so that its neighbours do not merge


class Bpe:
    """Turns text without special tokens into ids."""

    space_prefix = False

    def __init__(self, file: GgufFile, vocabulary: Vocabulary, pre: PreTokenizer) -> None:
        self.add_bos, self.drops_blanks = pre.add_bos, pre.drops_blanks
        self._unknown = len(vocabulary.pieces)
        self._tokenizer = Tokenizer(make_merger(file, vocabulary, ignore_merges=pre.whole_words))
        steps = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in pre.expressions]
        bytes_to_alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, bytes_to_alphabet])

    def encode(self, raw: bytes, exact: bool) -> list[int]:
        """Ids of `raw`.  Broken UTF-8 keeps its bytes if `exact`, and otherwise is read as llama.cpp does: as U+FFFD.
        Bytes that the vocabulary has no token for are dropped."""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            if exact:
                return self._encode_bytes(raw)
            text = repaired(raw)
        return self._known(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def piece_bytes(self, piece: bytes) -> bytes:
        return from_alphabet(piece.decode("utf-8", "surrogateescape"))

    def _encode_bytes(self, raw: bytes) -> list[int]:
        """Words are cut as if each broken byte were U+FFFD, but made of the true bytes."""
        text = raw.decode("utf-8", "surrogateescape")
        ids: list[int] = []
        for _, (start, end) in self._tokenizer.pre_tokenizer.pre_tokenize_str(_SURROGATE.sub("\ufffd", text)):
            word = "".join(CHARACTERS[byte] for byte in text[start:end].encode("utf-8", "surrogateescape"))
            ids += [token.id for token in self._tokenizer.model.tokenize(word)]
        return self._known(ids)

    def _known(self, ids: list[int]) -> list[int]:
        return ids if self._unknown not in ids else [id for id in ids if id != self._unknown]


def make_merger(file: GgufFile, vocabulary: Vocabulary, **options: bool) -> BPE:
    """What merges the characters of a word by the file's pairs; characters without a piece get the number of pieces.

    Pairs of which a part or the result is no piece lead to none: they are left out.  The library says so if there are
    any, but dies of pairs that are longer than all pieces; to look at each is a sixth of the start of a small model."""
    texts = [piece.decode("utf-8", "replace") for piece in vocabulary.pieces]
    pieces = dict(zip(texts, range(len(texts)), strict=True))
    pieces[_UNKNOWN] = len(texts)
    with _no_collection():
        pairs, longest = _pairs(file)
        if longest <= vocabulary.longest:
            try:
                return BPE(pieces, pairs, unk_token=_UNKNOWN, **options)
            except Exception:  # the library raises no other kind
                pass
    known = [(left, right) for left, right in pairs if left + right in pieces and left in pieces and right in pieces]
    return BPE(pieces, known, unk_token=_UNKNOWN, **options)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Keeps the garbage collector from looking at a hundred thousand new tuples again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _pairs(file: GgufFile) -> tuple[list[tuple[str, str]], int]:
    """The two texts of each line of the merges, and how many bytes the longest two have together.

    Lines that are not two texts with a blank between them are left out."""
    text = file.joined("tokenizer.ggml.merges", 0)
    marks = np.flatnonzero((text == 0) | (text == _BLANK))
    if (text[marks[::2]] != 0).any() or (text[marks[1::2]] != _BLANK).any() or len(marks) % 2:
        lines = [line for line in file.strings("tokenizer.ggml.merges") if line.count(b" ") == 1 and b"\0" not in line]
        text = np.frombuffer(b"\0".join([b"", *lines]), np.uint8)
        marks = np.flatnonzero((text == 0) | (text == _BLANK))
    if not len(marks):
        return [], 0
    parts = iter(text[1:].tobytes().decode("utf-8", "replace").replace("\0", " ").split(" "))
    return list(zip(parts, parts, strict=True)), int(np.diff(np.append(marks, len(text))[::2]).max()) - 2
