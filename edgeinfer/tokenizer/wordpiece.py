"""WordPiece vocabularies (model type `bert`): words, in lower case and without marks unless the file keeps them, each
the longest pieces that fit.

Pieces that begin a word begin with U+2581 in GGUF files.  As in llama.cpp words have no greatest length.
Source: https://github.com/google-research/bert/blob/master/tokenization.py."""

import unicodedata

from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.texts import Alphabet, Blanks
from edgeinfer.tokenizer.utf8 import repaired
from edgeinfer.tokenizer.vocabulary import BLANK, Vocabulary

_BLANKS = frozenset("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | set(map(chr, range(0x2000, 0x200B)))
_CHINESE = (
    *(range(0x4E00, 0xA000), range(0x3400, 0x4DC0), range(0xF900, 0xFB00), range(0x20000, 0x2A6E0)),
    *(range(0x2A700, 0x2B820), range(0x2B920, 0x2CEB0), range(0x2F800, 0x2FA20)),
)
_DROPPED = "\0\ufffd"


class _Normal(dict[int, str]):
    """For `str.translate`: what becomes of a character, found out when it first occurs.  Blanks divide words."""

    def __init__(self, lowers: bool, strips: bool) -> None:
        self._lowers, self._strips = lowers, strips

    def __missing__(self, code: int) -> str:
        character = unicodedata.normalize("NFD", chr(code))[0] if self._strips else chr(code)
        category = unicodedata.category(character)
        alone = category[0] == "P" or (category[0] == "S" and character < "\x7f")
        if character in _BLANKS:
            text = " "
        elif character in _DROPPED or category in ("Cc", "Cf", "Co", "Cs") or (self._strips and category[0] == "M"):
            text = ""
        else:
            text = character.lower()[0] if self._lowers else character
            if alone or any(ord(character) in block for block in _CHINESE):
                text = f" {text} "
        self[code] = text
        return text


class WordPiece:
    """Turns text without special tokens into ids."""

    space_prefix = False
    add_bos = True
    drops_blanks = True
    alphabet: Alphabet = Blanks()

    def __init__(self, file: GgufFile, vocabulary: Vocabulary) -> None:
        self._ids = dict(zip(vocabulary.pieces, range(len(vocabulary.pieces)), strict=True))
        self._longest = vocabulary.longest
        self._unknown = [] if vocabulary.unknown_id is None else [vocabulary.unknown_id]
        lowers = file.get("tokenizer.ggml.normalizer.lowercase", bool, True)
        self._normal = _Normal(lowers, file.get("tokenizer.ggml.normalizer.strip_accents", bool, lowers))

    def encode(self, raw: bytes, exact: bool) -> list[int]:
        """Ids of `raw`, in which broken UTF-8 is left out, whether or not `exact`."""
        return [
            id for word in repaired(raw).translate(self._normal).split() for id in self._word(BLANK + word.encode())
        ]

    def _word(self, word: bytes) -> list[int]:
        """The ids of a word, or that of an unknown one if any part of it has no piece."""
        ids = []
        start = 0
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                if (id := self._ids.get(word[start:end])) is not None:
                    break
            else:
                return self._unknown
            ids.append(id)
            start = end
        return ids
