"""Token healing: the end of a prompt taken back, so that the model may choose a longer token across the seam.

A prompt that ends inside a word ends in tokens that tell the model otherwise: had the text gone on with `Wednesday`, it
would not hold `Wed`, `nes`.  `back_up` drops such tokens and gives their bytes; `Prefix` then admits only tokens that
agree with these bytes until all are spent.  It works on the tokens' own bytes, whatever the tokenizer does to text.

The generated tokens then begin with the prompt's last `len(prefix)` bytes: the loop that streams them strips those.
"""

import collections
import weakref
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

_FARTHEST = 64  # bytes backed up over; longer tokens are rulers and padding


class Vocabulary(Protocol):
    """What healing needs of a tokenizer, which must be hashable and weakly referable."""

    @property
    def n_vocab(self) -> int: ...
    def token_bytes(self, id: int, /) -> bytes: ...
    def is_control(self, id: int, /) -> bool: ...


class _Index:
    """The tokens by their first two bytes (or their only one): to sort a whole vocabulary would take too long."""

    def __init__(self, tokenizer: Vocabulary) -> None:
        heads = collections.defaultdict(list)
        token_bytes = tokenizer.token_bytes
        for id in range(tokenizer.n_vocab):
            heads[token_bytes(id)[:2]].append(id)
        self.heads = {head: np.array(ids, dtype=np.int64) for head, ids in heads.items() if head}
        self._of_byte: dict[bytes, np.ndarray] = {}

    def of_byte(self, tokenizer: Vocabulary, byte: bytes) -> np.ndarray:
        """Rising ids i64[n] of the text tokens that start with the byte: for a space, half of the vocabulary."""
        ids = self._of_byte.get(byte)
        if ids is None:
            ids = np.sort(np.concatenate([ids for head, ids in self.heads.items() if head[:1] == byte]))
            ids = ids[[not tokenizer.is_control(id) for id in ids.tolist()]]
            self._of_byte[byte] = ids
        return ids


_indexes: "weakref.WeakKeyDictionary[Vocabulary, _Index]" = weakref.WeakKeyDictionary()


def _index(tokenizer: Vocabulary) -> _Index:
    index = _indexes.get(tokenizer)
    if index is None:
        index = _indexes[tokenizer] = _Index(tokenizer)
    return index


def _related(tokenizer: Vocabulary, text: bytes) -> Iterator[tuple[int, bytes]]:
    """The text tokens that start with `text` or are a beginning of it, and their bytes."""
    heads = _index(tokenizer).heads
    for head in [text[:1], text[:2]] if len(text) > 1 else [head for head in heads if head[:1] == text]:
        for id in heads[head].tolist() if head in heads else ():
            token = tokenizer.token_bytes(id)
            if (token.startswith(text) or text.startswith(token)) and not tokenizer.is_control(id):
                yield id, token


def back_up(tokenizer: Vocabulary, ids: Sequence[int]) -> tuple[list[int], bytes]:
    """The prompt without its last tokens, and their bytes: as many tokens as one longer token could cover together.

    Nothing is dropped where no token could.  Control tokens stay, and so does the first token of all."""
    kept, tail = len(ids), b""
    for place in range(len(ids) - 1, 0, -1):
        token = tokenizer.token_bytes(ids[place])
        tail = token + tail
        if tokenizer.is_control(ids[place]) or not token or len(tail) > _FARTHEST:
            break
        if any(len(longer) > len(tail) for _, longer in _related(tokenizer, tail)):
            kept = place
    return list(ids[:kept]), b"".join(tokenizer.token_bytes(id) for id in ids[kept:])


class Prefix:
    """The bytes that the next tokens must spell before they are free."""

    def __init__(self, tokenizer: Vocabulary, prefix: bytes) -> None:
        self._tokenizer = tokenizer
        self._prefix = prefix
        self._place = 0
        # whether tokens can spell the prefix from each place to its end
        self._passable = [False] * len(prefix)
        for place in range(len(prefix) - 1, -1, -1):
            self._passable[place] = any(True for _ in self._choices(place))

    def allowed(self) -> np.ndarray | None:
        """Rising ids i64[n] of the tokens that may come next; None once the prefix is spent.

        They start with what remains, or are a part of it from which tokens can go on to its end."""
        remaining = self._prefix[self._place :]
        if not remaining:
            return None
        if len(remaining) == 1:
            return _index(self._tokenizer).of_byte(self._tokenizer, remaining)
        return np.sort(np.fromiter(self._choices(self._place), dtype=np.int64))

    def advance(self, id: int) -> None:
        """Take note of the token chosen, one of the allowed ones."""
        self._place += len(self._tokenizer.token_bytes(id))

    def _choices(self, place: int) -> Iterator[int]:
        for id, token in _related(self._tokenizer, self._prefix[place:]):
            end = place + len(token)
            if end >= len(self._prefix) or self._passable[end]:
                yield id
