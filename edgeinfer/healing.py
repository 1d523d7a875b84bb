"""Token healing: the end of a prompt taken back, so that the model may choose a longer token across the seam.

A prompt that ends inside a word ends in tokens that tell the model otherwise: had the text gone on with `Wednesday`, it
would not hold `Wed`, `nes`.  `back_up` drops such tokens, and `Respelling` then admits only each of them again, or a
token that goes on to the prompt's end or beyond.  Other parts of the text are no choice: a token such as a lone blank
is likely for what may follow it, and the prompt says what does.  It works on the tokens' own bytes, whatever the
tokenizer does to text.
"""

import weakref
from collections.abc import Sequence
from typing import Protocol

import numpy as np

_FARTHEST = 64  # bytes backed up over; longer tokens are rulers and padding


class Vocabulary(Protocol):
    """What healing needs of a tokenizer, which must be hashable and weakly referable."""

    @property
    def text_bytes(self) -> list[bytes]:
        """The bytes of each token by its id; none for control tokens."""


class _Index:
    """The bytes of all tokens behind each other: to sort a whole vocabulary, or to look at it in Python, takes long."""

    def __init__(self, texts: list[bytes]) -> None:
        self._lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._bytes = np.frombuffer(b"".join(texts) + b"\0", np.uint8)
        self._firsts = self._bytes[self._starts]  # of an empty text what follows

    def beginning_with(self, text: bytes) -> np.ndarray:
        """Rising ids i64[n] of the tokens whose bytes begin with `text`, which is not empty."""
        ids = np.flatnonzero(self._firsts == text[0])
        ids = ids[self._lengths[ids] >= len(text)]
        for place, byte in enumerate(text[1:], 1):
            ids = ids[self._bytes[self._starts[ids] + place] == byte]
        return ids


_indexes: "weakref.WeakKeyDictionary[Vocabulary, _Index]" = weakref.WeakKeyDictionary()


def _index(tokenizer: Vocabulary) -> _Index:
    index = _indexes.get(tokenizer)
    if index is None:
        index = _indexes[tokenizer] = _Index(tokenizer.text_bytes)
    return index


def back_up(tokenizer: Vocabulary, ids: Sequence[int]) -> int:
    """How many tokens of the prompt stay; as many go at its end as one longer token could cover together.

    None goes where no token could.  Control tokens stay, and so does the first token of all."""
    texts, index = tokenizer.text_bytes, _index(tokenizer)
    kept, tail = len(ids), b""
    for place in range(len(ids) - 1, 0, -1):
        text = texts[ids[place]]
        tail = text + tail
        if not text or len(tail) > _FARTHEST:
            break
        if any(len(texts[id]) > len(tail) for id in index.beginning_with(tail)):
            kept = place
    return kept


class Respelling:
    """The text of dropped tokens, which the next tokens must spell before they are free."""

    def __init__(self, tokenizer: Vocabulary, dropped: Sequence[int]) -> None:
        self._tokenizer, self._dropped = tokenizer, list(dropped)
        self._texts = tokenizer.text_bytes if dropped else []  # all of a vocabulary's texts take a while to make
        self._left = b"".join(self._texts[id] for id in dropped)

    def allowed(self) -> np.ndarray | None:
        """Rising ids i64[n] of the tokens that may come next; None once all is spelt."""
        if not self._left:
            return None
        ids, own = _index(self._tokenizer).beginning_with(self._left), self._dropped[0]
        return ids if len(self._texts[own]) == len(self._left) else np.sort(np.append(ids, own))

    def advance(self, id: int) -> bytes:
        """Takes note of the token chosen, one of the allowed ones; its bytes beyond the prompt's end."""
        text = self._texts[id]
        beyond, self._left = text[len(self._left) :], self._left[len(text) :]
        del self._dropped[0]
        return beyond
