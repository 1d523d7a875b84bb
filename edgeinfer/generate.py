"""Generation: the one loop that turns a prompt into text, a token at a time."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edgeinfer.backend import Top
from edgeinfer.engine import Engine, Sequence
from edgeinfer.healing import Respelling
from edgeinfer.sampling import Sampler
from edgeinfer.sampling_params import SamplingParams
from edgeinfer.tokenizer import Tokenizer
from edgeinfer.tokenizer.stream import TextStream


@dataclass(frozen=True)
class Request:
    """What to generate from: ids, at least one, and the settings of `LLM.generate`."""

    ids: list[int]
    max_tokens: int
    stops: tuple[str, ...]
    params: SamplingParams
    ignore_eos: bool = False
    dropped: tuple[int, ...] = ()  # the prompt's last tokens, left out of `ids`: their text may be spelt otherwise
    reuse: bool = True  # continue from what an earlier request left
    text: tuple[int, ...] = ()  # what `ids` answer, in models that read a text before


@dataclass(frozen=True)
class Usage:
    """Counts of tokens.  Cached ones are those of the prompt that did not have to be read again."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Timings:
    """Seconds and tokens per second.  The time a caller takes between two chunks does not count."""

    prompt_s: float  # reading the prompt
    first_token_s: float  # from the start to the first token, the wait for a free sequence included
    token_s: float  # each token after the first, on average; 0 if there is none
    prompt_tokens_per_s: float  # of those read, not the cached
    tokens_per_s: float  # after the first; 0 if there is none


@dataclass(frozen=True)
class Chunk:
    """What one token adds.  `text` is empty while it could still be part of a character or of a stop string.

    `id` is None where the end came without another token.  The last chunk has finish_reason ("stop": the model ended
    its text or a stop string was found; "length": max_tokens or the context is used up), usage and timings.
    """

    text: str
    id: int | None
    finish_reason: str | None = None
    usage: Usage | None = None
    timings: Timings | None = None


@dataclass(frozen=True)
class Completion:
    """A whole answer.  `ids` are the tokens generated, without the one that ends it."""

    text: str
    ids: list[int]
    finish_reason: str
    usage: Usage
    timings: Timings


def stream(engine: Engine, tokenizer: Tokenizer, request: Request) -> Iterator[Chunk]:
    """A Chunk for each token as soon as it is known.  Closed early, it leaves what was read for later requests."""
    watch = Stopwatch()
    with engine.sequence(request.ids, request.reuse, request.text) as sequence:
        run = _Run(engine, tokenizer, request, sequence, watch)
        chunk = run.first()
        while chunk.finish_reason is None:
            yield chunk
            watch.go_on()
            chunk = run.next()
    yield chunk


def collect(chunks: Iterator[Chunk]) -> Completion:
    """The whole of a stream."""
    texts, ids = [], []
    for chunk in chunks:
        texts.append(chunk.text)
        if chunk.id is not None:
            ids.append(chunk.id)
    assert chunk.finish_reason and chunk.usage and chunk.timings
    return Completion("".join(texts), ids, chunk.finish_reason, chunk.usage, chunk.timings)


class Stopwatch:
    """Measures a request, without the time its caller takes."""

    def __init__(self) -> None:
        self._start = self._mark = time.perf_counter()
        self._prompt = self._first = self._rest = 0.0
        self._tokens = 0

    def go_on(self) -> None:
        self._mark = time.perf_counter()

    def prompt_read(self) -> None:
        self._prompt = time.perf_counter() - self._mark

    def token_known(self) -> None:
        now = time.perf_counter()
        if self._tokens:
            self._rest += now - self._mark
        else:
            self._first = now - self._start
        self._tokens += 1

    def timings(self, prompt_tokens: int) -> Timings:
        """With so many tokens read in the prompt."""
        rest = self._rest / (self._tokens - 1) if self._tokens > 1 else 0.0
        return Timings(self._prompt, self._first, rest, prompt_tokens / self._prompt, 1 / rest if rest else 0.0)


class _Run:
    """A request under way."""

    def __init__(
        self, engine: Engine, tokenizer: Tokenizer, request: Request, sequence: Sequence, watch: Stopwatch
    ) -> None:
        self._engine, self._tokenizer, self._request = engine, tokenizer, request
        self._sequence, self._watch = sequence, watch
        self._cached = sequence.held + (len(request.text) if sequence.text_held else 0)
        self._sampler = Sampler(request.params, engine.n_vocab)
        self._sampler.accept_prompt(request.ids)
        self._text = TextStream(tokenizer, request.stops)
        self._ends = frozenset() if request.ignore_eos else tokenizer.eog_ids
        self._logits = np.empty((1, engine.n_vocab), np.float32)
        self._top: Top | None = None  # in their place

    def first(self) -> Chunk:
        """Reads the prompt."""
        self._watch.go_on()
        self._read(whole=bool(self._request.dropped))
        self._watch.prompt_read()
        crossing = self._heal()
        self._prompt_tokens = len(self._sequence.ids)
        if not self._request.max_tokens:
            return self._last("", None, "length")
        if crossing:
            id, rest = crossing
            return self._token(id, self._text.push_bytes(rest))
        return self._pick()

    def next(self) -> Chunk:
        self._read()
        return self._pick()

    def _read(self, whole: bool = False) -> None:
        """Read what is new: all logits, or those that decide."""
        if self._sampler.top and not whole:
            self._top = self._engine.read_top(self._sequence, self._sampler.top)
        else:
            self._engine.read(self._sequence, self._logits)

    def _heal(self) -> tuple[int, bytes] | None:
        """Has the end of the prompt spelt; the token that goes beyond it and those bytes of it, if one does."""
        respelling = Respelling(self._tokenizer.texts, self._request.dropped)
        while (allowed := respelling.allowed()) is not None:
            id = self._sampler.pick(self._logits[0], allowed)
            if beyond := respelling.advance(id):
                return id, beyond
            self._sampler.accept_prompt([id])
            self._sequence.ids.append(id)
            self._engine.read(self._sequence, self._logits)
        return None

    def _pick(self) -> Chunk:
        top = self._top
        id = self._sampler.pick_top(top.ids, top.logits) if top else self._sampler.pick(self._logits[0])
        if id in self._ends:
            return self._last(self._text.finish(), None, "stop")
        return self._token(id, self._text.push(id))

    def _token(self, id: int, text: str) -> Chunk:
        self._sampler.accept(id)
        self._sequence.ids.append(id)
        if self._text.stopped is not None:
            return self._last(text, id, "stop")
        if self._generated == self._request.max_tokens or len(self._sequence.ids) == self._engine.n_ctx:
            return self._last(text + self._text.finish(), id, "length")
        self._watch.token_known()
        return Chunk(text, id)

    @property
    def _generated(self) -> int:
        return len(self._sequence.ids) - self._prompt_tokens

    def _last(self, text: str, id: int | None, reason: str) -> Chunk:
        self._watch.token_known()
        read = len(self._request.text)
        usage = Usage(read + self._prompt_tokens, self._generated, self._cached)
        timings = self._watch.timings(read + len(self._request.ids) - self._cached)
        return Chunk(text, id, reason, usage, timings)
