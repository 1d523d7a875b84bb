"""Token healing: the end of a prompt taken back, so that the model may choose a longer token across the seam.

A prompt that ends inside a word ends in tokens that tell the model otherwise: had the text gone on with `Wednesday`, it
would not hold `Wed`, `nes`.  `back_up` drops such tokens, and `Respelling` then admits only each of them again, or a
token that goes on to the prompt's end or beyond.  Other parts of the text are no choice: a token such as a lone blank
is likely for what may follow it, and the prompt says what does.  It works on the tokens' own bytes, whatever the
tokenizer does to text.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

_FARTHEST = 64  # bytes backed up over; longer tokens are rulers and padding


class Texts(Protocol):
    """The bytes of tokens by their ids; none of control tokens."""

    def __getitem__(self, id: int) -> bytes: ...

    def beginning_with(self, text: bytes) -> np.ndarray:
        """Rising ids i64[n] of the tokens whose bytes begin with `text`, which is not empty."""


def back_up(texts: Texts, ids: Sequence[int]) -> int:
    """How many tokens of the prompt stay; as many go at its end as one longer token could cover together.

    None goes where no token could.  Control tokens stay, and so does the first token of all."""
    kept, tail = len(ids), b""
    for place in range(len(ids) - 1, 0, -1):
        text = texts[ids[place]]
        tail = text + tail
        if not text or len(tail) > _FARTHEST:
            break
        if any(len(texts[id]) > len(tail) for id in texts.beginning_with(tail).tolist()):
            kept = place
    return kept


class Respelling:
    """The text of dropped tokens, which the next tokens must spell before they are free."""

    def __init__(self, texts: Texts, dropped: Sequence[int]) -> None:
        self._texts, self._dropped = texts, list(dropped)
        self._left = b"".join(texts[id] for id in dropped)

    def allowed(self) -> np.ndarray | None:
        """Rising ids i64[n] of the tokens that may come next; None once all is spelt."""
        if not self._left:
            return None
        ids, own = self._texts.beginning_with(self._left), self._dropped[0]
        return ids if len(self._texts[own]) == len(self._left) else np.sort(np.append(ids, own))

    def advance(self, id: int) -> bytes:
        """Takes note of the token chosen, one of the allowed ones; its bytes beyond the prompt's end."""
        text = self._texts[id]
        beyond, self._left = text[len(self._left) :], self._left[len(text) :]
        del self._dropped[0]
        return beyond
