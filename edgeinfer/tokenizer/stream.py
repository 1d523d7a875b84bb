"""Text from token ids as they come: never half a character, never any of a stop string."""

import codecs
from collections.abc import Sequence

from edgeinfer.errors import RequestError
from edgeinfer.tokenizer.tokenizer import Tokenizer


class TextStream:
    """`stopped` is the stop string that was found, `text` all that was given out.

    The stop string that is complete first counts, so it makes no difference how tokens divide the text.  RequestError
    if one is empty."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str] = (), special: bool = False) -> None:
        """Control tokens give no text, or their spelling if `special`."""
        if "" in stops:
            raise RequestError("a stop string is empty")
        self.stopped: str | None = None
        self._tokenizer = tokenizer
        self._stops = tuple(stops)
        self._special = special
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._given: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._given)

    def push(self, id: int) -> str:
        """What is certain to belong to the text now that token `id` has come."""
        if not self._special and self._tokenizer.is_control(id):
            return ""
        return self.push_bytes(self._tokenizer.token_bytes(id))

    def push_bytes(self, raw: bytes) -> str:
        """The same where only these bytes of a token are new."""
        if self.stopped is not None:
            return ""
        return self._take(self._decoder.decode(raw), hold=True)

    def finish(self) -> str:
        """The rest, now that no token will come; a character left incomplete is U+FFFD."""
        if self.stopped is not None:
            return ""
        return self._take(self._decoder.decode(b"", final=True), hold=False)

    def _take(self, new: str, hold: bool) -> str:
        if not self._stops:
            self._given.append(new)
            return new
        text = self._held + new
        found = [(start + len(stop), start, stop) for stop in self._stops if (start := text.find(stop)) >= 0]
        if found:
            _, end, self.stopped = min(found)
            self._held = ""
        else:
            end = len(text) - (self._beginning(text) if hold else 0)
            self._held = text[end:]
        self._given.append(text[:end])
        return text[:end]

    def _beginning(self, text: str) -> int:
        """The length of the longest end of `text` with which a stop string begins."""
        longest = min(len(text), max(map(len, self._stops), default=0))
        return next((n for n in range(longest, 0, -1) if any(stop.startswith(text[-n:]) for stop in self._stops)), 0)
