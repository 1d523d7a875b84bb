"""Token healing: the end of a prompt taken back, so that the model may choose a longer token across the seam.

A prompt that ends inside a word ends in tokens that tell the model otherwise: had the text gone on with `Wednesday`, it
would not hold `Wed`, `nes`.  `back_up` drops such tokens, and `Respelling` then admits only each of them again, or a
token that goes on to the prompt's end or beyond.  Other parts of the text are no choice: a token such as a lone blank
is likely for what may follow it, and the prompt says what does.  It works on the tokens' own bytes, whatever the
tokenizer does to text.
"""

import collections
import itertools
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
    """The tokens by their first two bytes (or their only one): to sort a whole vocabulary would take too long."""

    def __init__(self, texts: list[bytes]) -> None:
        self._texts = texts
        self._heads = collections.defaultdict[bytes, list[int]](list)
        for id, text in enumerate(texts):
            self._heads[text[:2]].append(id)
        self._of_byte: dict[bytes, np.ndarray] = {}

    def beginning_with(self, text: bytes) -> np.ndarray:
        """Rising ids i64[n] of the tokens whose bytes begin with `text`, which is not empty."""
        if len(text) > 1:
            return np.array([id for id in self._heads.get(text[:2], ()) if self._texts[id].startswith(text)], np.int64)
        if text not in self._of_byte:  # for a blank it is half of the vocabulary
            ids = [ids for head, ids in self._heads.items() if head[:1] == text]
            self._of_byte[text] = np.sort(np.fromiter(itertools.chain.from_iterable(ids), np.int64))
        return self._of_byte[text]


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
