"""Byte-level byte-pair encoding (model type `gpt2`): a pre-tokenizer cuts words, then the file's pairs are merged.

Source: https://github.com/openai/gpt-2/blob/master/src/encoder.py."""

import re

from tokenizers import Regex, Tokenizer, pre_tokenizers
from tokenizers.models import BPE

from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.byte_alphabet import CHARACTERS, from_alphabet
from edgeinfer.tokenizer.pretokenizers import PreTokenizer
from edgeinfer.tokenizer.utf8 import repaired
from edgeinfer.tokenizer.vocabulary import Vocabulary

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNKNOWN = "\0"  # not of the byte alphabet: what a byte without a token becomes, so that its neighbours do not merge


class Bpe:
    """Turns text without special tokens into ids."""

    space_prefix = False

    def __init__(self, file: GgufFile, vocabulary: Vocabulary, pre: PreTokenizer) -> None:
        texts = [piece.decode("utf-8", "replace") for piece in vocabulary.ids]
        pieces = dict(zip(texts, vocabulary.ids.values(), strict=True))
        self.add_bos, self.drops_blanks = pre.add_bos, pre.drops_blanks
        self._unknown = len(vocabulary.pieces)
        pieces[_UNKNOWN] = self._unknown
        merges = _merges(file, pieces)
        self._tokenizer = Tokenizer(BPE(pieces, merges, unk_token=_UNKNOWN, ignore_merges=pre.whole_words))
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


def _merges(file: GgufFile, pieces: dict[str, int]) -> list[tuple[str, str]]:
    """The pairs in order.  Those of which a part or the result is no token lead to none: they are left out, for the
    library takes them badly, and so are lines that are no two texts with a blank between them."""
    lines = [line for line in file.strings("tokenizer.ggml.merges") if line.count(b" ") == 1]
    texts = b" ".join(lines).decode("utf-8", "replace").split(" ")
    pairs = zip(texts[::2], texts[1::2], strict=False)
    return [(left, right) for left, right in pairs if left + right in pieces and left in pieces and right in pieces]
