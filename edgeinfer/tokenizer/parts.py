"""Models of the pieces that a short text can be made of.

To take in a whole vocabulary keeps the libraries busy for longer than all else at a start, 0.1 to 0.3 s, and a prompt
seldom needs more than a few hundred pieces.  Merging only ever makes parts of a word, so a model of those pieces that
are parts of the words gives the same ids."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

_Model = TypeVar("_Model")


class ForText(Generic[_Model]):
    """Finds the model for a text: one of its parts, or once the texts had as many parts as there are pieces, of all."""

    def __init__(
        self, longest: int, pieces: int, of_parts: Callable[[set[str]], _Model], of_all: Callable[[], _Model]
    ) -> None:
        """longest: characters of a piece, at most; pieces: how many there are."""
        self._longest, self._left = longest, pieces
        self._of_parts, self._of_all = of_parts, of_all
        self._whole: _Model | None = None

    def model(self, words: Iterable[str]) -> _Model:
        """A model that merges these words as that of all pieces does.  May be called from several threads."""
        if self._whole is None:
            words = set(words)
            self._left -= sum(len(word) * min(len(word), self._longest) for word in words)
            if self._left >= 0:
                return self._of_parts({part for word in words for part in _parts(word, self._longest)})
            self._whole = self._of_all()
        return self._whole


def _parts(word: str, longest: int) -> Iterable[str]:
    """All that the word holds of up to `longest` characters."""
    for start in range(len(word)):
        for end in range(start + 1, min(start + longest, len(word)) + 1):
            yield word[start:end]
