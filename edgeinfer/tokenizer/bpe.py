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
from edgeinfer.formats.strings import Strings
from edgeinfer.tokenizer.byte_alphabet import CHARACTERS, ByteAlphabet
from edgeinfer.tokenizer.parts import ForText
from edgeinfer.tokenizer.pretokenizers import PreTokenizer
from edgeinfer.tokenizer.texts import Alphabet
from edgeinfer.tokenizer.utf8 import repaired
from edgeinfer.tokenizer.vocabulary import Vocabulary

_SURROGATE = re.compile("[\ud800-\udfff]")
_BLANK = ord(" ")
_UNKNOWN = "\0"  # not of the byte alphabet: what a byte without a token becomes, so that its neighbours do not merge


class Bpe:
    """Turns text without special tokens into ids."""

    space_prefix = False
    alphabet: Alphabet = ByteAlphabet()

    def __init__(self, file: GgufFile, vocabulary: Vocabulary, pre: PreTokenizer) -> None:
        self.add_bos, self.drops_blanks = pre.add_bos, pre.drops_blanks
        self._unknown = len(vocabulary.pieces)
        self._mergers = mergers(file, vocabulary, ignore_merges=pre.whole_words)
        steps = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in pre.expressions]
        bytes_to_alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._words = pre_tokenizers.Sequence([*steps, bytes_to_alphabet])

    def encode(self, raw: bytes, exact: bool) -> list[int]:
        """Ids of `raw`.  Broken UTF-8 keeps its bytes if `exact`, and otherwise is read as llama.cpp does: as U+FFFD.
        Bytes that the vocabulary has no token for are dropped."""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            if exact:
                return self._known(self._encode_bytes(raw))
            text = repaired(raw)
        return self._known(self._encode(text))

    def _encode(self, text: str) -> list[int]:
        tokenizer = Tokenizer(self._mergers.model(self._words_of(text)))
        tokenizer.pre_tokenizer = self._words
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _words_of(self, text: str) -> Iterator[str]:
        for word, _ in self._words.pre_tokenize_str(text):
            yield word

    def _encode_bytes(self, raw: bytes) -> list[int]:
        """Words are cut as if each broken byte were U+FFFD, but made of the true bytes."""
        text = raw.decode("utf-8", "surrogateescape")
        places = [place for _, place in self._words.pre_tokenize_str(_SURROGATE.sub("\ufffd", text))]
        parts = [text[start:end].encode("utf-8", "surrogateescape") for start, end in places]
        words = ["".join(CHARACTERS[byte] for byte in part) for part in parts]
        merger = self._mergers.model(words)
        return [token.id for word in words for token in merger.tokenize(word)]

    def _known(self, ids: list[int]) -> list[int]:
        return ids if self._unknown not in ids else [id for id in ids if id != self._unknown]


def mergers(file: GgufFile, vocabulary: Vocabulary, **options: bool) -> ForText[BPE]:
    """What merges the characters of words by the file's pairs; characters without a piece get the number of pieces.

    Pairs of which a part or the result is no piece lead to none: they are left out."""
    merges = file.strings("tokenizer.ggml.merges")

    def of_parts(parts: set[str]) -> BPE:
        pieces = {raw.decode(): id for raw, id in vocabulary.pieces.find(map(str.encode, parts)).items()}
        halves = [(piece[:cut], piece[cut:]) for piece in pieces for cut in range(1, len(piece))]
        known = [(left, right) for left, right in halves if left in pieces and right in pieces]
        lines = {" ".join(pair).encode(): pair for pair in known}
        ranks = merges.find(filter(_is_pair, lines))
        ranked = [lines[line] for line in sorted(ranks, key=ranks.__getitem__)]
        pieces[_UNKNOWN] = len(vocabulary.pieces)
        return BPE(pieces, ranked, unk_token=_UNKNOWN, **options)

    def of_all() -> BPE:
        return _whole(vocabulary, _lines(merges), **options)

    return ForText(vocabulary.longest, len(vocabulary.pieces), of_parts, of_all)


def _whole(vocabulary: Vocabulary, lines: np.ndarray, **options: bool) -> BPE:
    """All pieces and pairs.

    The library says so if there are pairs that lead to no piece, but dies of those that are longer than all pieces; to
    look at each takes as long as all else."""
    texts = [piece.decode("utf-8", "replace") for piece in vocabulary.pieces]
    pieces = dict(zip(texts, range(len(texts)), strict=True))
    pieces[_UNKNOWN] = len(texts)
    with _no_collection():
        pairs, longest = _pairs(lines)
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


def _is_pair(line: bytes) -> bool:
    """Whether it is two texts with a blank between them."""
    return line.count(b" ") == 1 and b"\0" not in line


def _lines(merges: Strings) -> np.ndarray:
    """uint8: a zero and then the line, for each of the merges that is a pair."""
    text = merges.joined(0)
    marks = np.flatnonzero((text == 0) | (text == _BLANK))
    if (text[marks[::2]] == 0).all() and (text[marks[1::2]] == _BLANK).all() and len(marks) % 2 == 0:
        return text
    return np.frombuffer(b"\0".join([b"", *filter(_is_pair, merges)]), np.uint8)


def _pairs(lines: np.ndarray) -> tuple[list[tuple[str, str]], int]:
    """The two texts of each line, and how many bytes the longest two have together."""
    starts = np.flatnonzero(lines == 0)
    if not len(starts):
        return [], 0
    parts = iter(lines[1:].tobytes().decode("utf-8", "replace").replace("\0", " ").split(" "))
    return list(zip(parts, parts, strict=True)), int(np.diff(np.append(starts, len(lines))).max()) - 2
