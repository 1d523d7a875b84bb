"""Backend: what runs a plan, a step of several sequences at a time; the reference and the cpu backend are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from edgeinfer.errors import ContextFullError, RequestError
from edgeinfer.plan import Plan
from edgeinfer.sampling import largest


class Chunk(NamedTuple):
    """`ids` to append to sequence `seq`; the last `outputs` of these positions give logits.  1 in plans that pool."""

    seq: int
    ids: Sequence[int]
    outputs: int


class Top(NamedTuple):
    """The k largest logits of a position, falling, of equal ones the lowest id first.

    Where logits are not finite it is the one that `argmax` finds."""

    ids: list[int]
    logits: list[float]


class Backend(Protocol):
    """Holds the K and V, and recurrent states, of up to `n_seq` sequences of up to `n_ctx` tokens each."""

    @property
    def n_ctx(self) -> int: ...

    @property
    def n_batch(self) -> int:
        """Most tokens in one step, all chunks together."""

    @property
    def n_seq(self) -> int: ...

    @property
    def n_vocab(self) -> int: ...

    @property
    def plan(self) -> Plan: ...

    def open(self) -> int:
        """A free sequence, empty.  BackendError if none is free or its K and V do not fit in memory."""

    def close_sequence(self, seq: int) -> None:
        """Forget `seq`; `open` may give its number again."""

    def length(self, seq: int) -> int:
        """Tokens of `seq` whose K and V, and states, are held."""

    def cut(self, seq: int, length: int) -> int:
        """Roll `seq` back; the length now held: `length`, or less where what `length` tokens need is lost.

        A ring that has forgotten too much gives 0; recurrent states go back to where they were last copied."""

    def read_text(self, seq: int, ids: Sequence[int]) -> None:
        """Have `seq`, emptied, answer this text of up to n_ctx tokens: before its first step, in plans with a reader.

        RequestError, ContextFullError where that is impossible."""

    def has_text(self, seq: int) -> bool:
        """Whether `seq` has a text to answer."""

    def step(self, chunks: Sequence[Chunk], logits: np.ndarray) -> None:
        """Append the chunks and write logits, float32[outputs, vocab], in chunk order; or what else the plan ends in.

        RequestError or ContextFullError before anything is changed where the chunks are impossible (`check_step`).
        """

    def step_top(self, chunk: Chunk, k: int) -> Top:
        """As `step`, of one chunk with one output; only the k largest of its logits, the same to the last bit."""

    def close(self) -> None:
        """Give back memory and threads; nothing may be called after."""


def check_step(backend: Backend, chunks: Sequence[Chunk], logits: np.ndarray) -> None:
    """Raise where `backend.step(chunks, logits)` is impossible; every backend calls it first."""
    tokens = outputs = 0
    for chunk in chunks:
        tokens, outputs = tokens + len(chunk.ids), outputs + chunk.outputs
    if not 1 <= tokens <= backend.n_batch:
        raise RequestError(f"a step of {tokens} tokens; must be 1..{backend.n_batch}")
    if len(chunks) > 1 and len({c.seq for c in chunks}) != len(chunks):
        raise RequestError("a step with two chunks of one sequence")
    width = backend.plan.width
    if logits.shape != (outputs, width) or logits.dtype != np.float32:
        raise RequestError(f"logits are {logits.dtype}{logits.shape}; must be float32{(outputs, width)}")
    for chunk in chunks:
        if not (len(chunk.ids) and 0 <= chunk.outputs <= len(chunk.ids)):
            raise RequestError(f"a chunk of {len(chunk.ids)} tokens with {chunk.outputs} outputs")
        if backend.plan.pooling and chunk.outputs != 1:
            raise RequestError(f"a chunk with {chunk.outputs} outputs; a plan that pools gives one for each chunk")
        if backend.plan.reader and not backend.has_text(chunk.seq):
            raise RequestError("a step before the text that it is to answer was read")
        if backend.length(chunk.seq) and (backend.plan.pooling or not backend.plan.causal):
            raise RequestError("a text in several steps; a plan that pools, or is not causal, must read it in one")
        length = backend.length(chunk.seq) + len(chunk.ids)
        if length > backend.n_ctx:
            raise ContextFullError(f"{length} tokens do not fit into the context of {backend.n_ctx}")
        for id in chunk.ids:
            if not 0 <= id < backend.n_vocab:
                raise RequestError(f"token {id} is not in the vocabulary, 0..{backend.n_vocab - 1}")


B = TypeVar("B", bound=Backend)


def answering(reader: B | None) -> B:
    """What reads texts in a backend whose plan answers them.  RequestError where it does not."""
    if reader is None:
        raise RequestError("a text to answer, for a model that goes on from texts")
    return reader


def segments(ids: Sequence[int], separator: int, count: int) -> np.ndarray:
    """int[ids]: how many separators lie before each token, at most count - 1."""
    found = np.asarray(ids) == separator
    numbers: np.ndarray = np.minimum(np.cumsum(found) - found, count - 1)
    return numbers


def full_step_top(backend: Backend, chunk: Chunk, k: int) -> Top:
    """`step_top` by way of all logits."""
    logits = np.empty((1, backend.n_vocab), np.float32)
    backend.step([chunk], logits)
    return top(logits[0], k)


def top(logits: np.ndarray, k: int) -> Top:
    """The k largest of logits f32[vocab]."""
    best = int(logits.argmax())  # the first NaN, if there is one
    ids = largest(logits, k) if np.isfinite(logits[best]) else np.array([best])
    return Top(ids.tolist(), logits[ids].tolist())
