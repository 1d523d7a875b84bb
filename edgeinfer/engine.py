"""The engine: takes sequences of tokens through a backend, and keeps finished ones for requests that begin alike.

A request holds one `Sequence` while it runs.  Steps of several requests take turns, in the order in which they ask; a
step that serves several of them at once needs no change outside `_step`.  A finished request leaves its tokens and
their KV in the pool, and a later one goes on from the tokens with which both begin: it reads only the rest."""

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items
from contextlib import contextmanager, suppress

import numpy as np

from edgeinfer.backend import Backend, Chunk, Top
from edgeinfer.errors import BackendError, FormatError, RequestError
from edgeinfer.plan import Plan


class Sequence:
    """The tokens of one request.  The backend holds the KV of the first `held`; `Engine.read` has it read the rest, and
    before them the text that they answer, where the plan does so."""

    def __init__(self, number: int) -> None:
        self.number = number  # the backend's
        self.text: list[int] = []
        self.text_held = False
        self.ids: list[int] = []
        self.held = 0
        self.thread = 0  # of the request that holds it


class Engine:
    """Owns a backend.  All methods may be called from several threads."""

    def __init__(self, backend: Backend, check_file: Callable[[], None] = lambda: None) -> None:
        """`check_file` raises where the model's file cannot be used any more; it is asked around every step."""
        self._check_file = check_file
        self.n_ctx, self.n_batch, self.n_vocab = backend.n_ctx, backend.n_batch, backend.n_vocab
        self._backend = backend
        self._close_backend = weakref.finalize(self, backend.close)  # also where nobody calls `close`
        self._close_backend.atexit = False
        self._pool = threading.Condition()
        self._idle: list[Sequence] = []  # longest unused first
        self._busy: list[Sequence] = []
        self._readers: list[int] = []  # the backend's sequences that `encode` has opened, empty between its steps
        self._turn = _Turn(self.check_open)
        self._closed = self._torn = False
        _engines.add(self)

    @contextmanager
    def sequence(self, ids: Items[int], reuse: bool = True, text: Items[int] = ()) -> Iterator[Sequence]:
        """A sequence of these ids, of which the backend may hold a beginning (never the last), in answer to the text.

        Waits while all are in use; BackendError where that would never end.  `reuse=False` begins at nothing, so that
        the results depend on these ids alone.
        """
        text = list(text)
        sequence = self._acquire(ids if reuse else (), text if reuse else [])
        keep = False
        try:
            reuse = reuse and sequence.text == text
            self._rewind(sequence, min(_common(sequence.ids, ids), len(ids) - 1) if reuse else 0)
            sequence.text_held = sequence.text_held and reuse
            sequence.text, sequence.ids = text, list(ids)
            yield sequence
            keep = True
        except (GeneratorExit, KeyboardInterrupt):
            keep = True  # what was read is sound
            raise
        finally:
            self._release(sequence, keep)

    def read(self, sequence: Sequence, logits: np.ndarray) -> None:
        """Have the backend read all it does not hold of `sequence.ids`, in steps of its n_batch.

        Fills logits, float32[outputs, vocab]: the last `outputs` of the tokens read.  ContextFullError, BackendError.
        """
        self._read_text(sequence)
        first = len(sequence.ids) - len(logits)
        for start in range(sequence.held, len(sequence.ids), self.n_batch):
            part = sequence.ids[start : start + self.n_batch]
            rows = logits[max(start - first, 0) : max(start + len(part) - first, 0)]
            self._step([Chunk(sequence.number, part, len(rows))], rows)
            sequence.held += len(part)

    def read_top(self, sequence: Sequence, k: int) -> Top:
        """As `read`; only the k largest of the logits after the last token, the same to the last bit."""
        self._read_text(sequence)
        while len(sequence.ids) - sequence.held > self.n_batch:
            part = sequence.ids[sequence.held : sequence.held + self.n_batch]
            self._step([Chunk(sequence.number, part, 0)], np.empty((0, self.n_vocab), np.float32))
            sequence.held += len(part)
        with self._turn:
            top = self._backend.step_top(Chunk(sequence.number, sequence.ids[sequence.held :], 1), k)
        sequence.held = len(sequence.ids)
        return top

    def encode(self, texts: Items[Items[int]], out: np.ndarray) -> None:
        """What a plan that pools makes of each text by itself, in one step.

        Fills out, float32[texts, width].  The texts have no more than n_batch tokens together, and there are no more of
        them than the backend has sequences.
        """
        with self._turn:
            while len(self._readers) < len(texts):
                self._readers.append(self._backend.open())
            readers = self._readers[: len(texts)]
            try:
                self._backend.step([Chunk(number, ids, 1) for number, ids in zip(readers, texts, strict=True)], out)
            finally:
                for number in readers:
                    self._backend.cut(number, 0)

    @property
    def plan(self) -> Plan:
        self.check_open()
        return self._backend.plan

    def check_open(self) -> None:
        """RequestError after `close`; FormatError where the file can no longer be read; BackendError in a fork made in
        the middle of a step."""
        if self._closed:
            raise RequestError("the model is closed")
        if self._torn:
            raise BackendError("this process was forked in the middle of a step of the model: load it again in here")
        self._check_file()

    def idle_ids(self) -> list[list[int]]:
        """The tokens of each sequence a request could continue."""
        with self._pool:
            return [sequence.ids for sequence in self._idle]

    def close(self) -> None:
        """Give back memory and threads once the step that runs has ended.  Requests under way end with RequestError."""
        with self._turn.running:
            if not self._closed:
                self._closed = True
                self._close_backend()
                del self._backend  # and with it the KV and the views of the file, whoever still holds this engine
        with self._pool:
            self._pool.notify_all()

    def forked(self) -> None:
        """For a new process, in which the thread that forked goes on alone: what others held is free."""
        self._torn = self._turn.running.locked()
        self._pool, self._turn = threading.Condition(), _Turn(self.check_open)
        for sequence in self._busy.copy():
            if sequence.thread != threading.get_ident():
                sequence.ids = []
                self._busy.remove(sequence)
                self._idle.append(sequence)

    def _read_text(self, sequence: Sequence) -> None:
        if sequence.text and not sequence.text_held:
            with self._turn:
                self._backend.read_text(sequence.number, sequence.text)
            sequence.text_held = True

    def _step(self, chunks: list[Chunk], logits: np.ndarray) -> None:
        with self._turn:
            self._backend.step(chunks, logits)

    def _acquire(self, ids: Items[int], text: list[int]) -> Sequence:
        with self._pool:
            while (sequence := self._choose(ids, text)) is None:
                self._pool.wait()
            if sequence in self._idle:
                self._idle.remove(sequence)
            sequence.thread = threading.get_ident()
            self._busy.append(sequence)
            return sequence

    def _choose(self, ids: Items[int], text: list[int]) -> Sequence | None:
        """The idle sequence to go on from; a new one where that drops more than it saves; else the longest unused.

        Of answers to a text only this is worth anything later."""
        alike = [sequence for sequence in self._idle if sequence.text == text]
        best = max(alike, key=lambda s: (_common(s.ids, ids), -len(s.ids)), default=None)
        if best and (text or 2 * _common(best.ids, ids) >= len(best.ids)):
            return best
        return self._open() or next(iter(self._idle), None)

    def _open(self) -> Sequence | None:
        with self._turn:
            if len(self._idle) + len(self._busy) < self._backend.n_seq:
                try:
                    return Sequence(self._backend.open())
                except BackendError:
                    if not self._idle and not self._busy:
                        raise
        if self._busy and not self._idle and all(s.thread == threading.get_ident() for s in self._busy):
            raise BackendError(f"all {len(self._busy)} sequences are held by streams of this thread: end one first")
        return None

    def _rewind(self, sequence: Sequence, length: int) -> None:
        """Have the backend hold at most `length` tokens; it says how many there are, as a step may have broken off."""
        with self._turn:
            sequence.held = self._backend.length(sequence.number)
            if length < sequence.held:
                sequence.held = self._backend.cut(sequence.number, length)

    def _release(self, sequence: Sequence, keep: bool) -> None:
        if not keep:
            sequence.ids = []
        try:
            with suppress(RequestError, FormatError):  # closed meanwhile, or without a file
                self._rewind(sequence, len(sequence.ids))
        finally:  # also where one more interrupt comes while it waits for its turn
            with self._pool:
                self._busy.remove(sequence)
                self._idle.append(sequence)
                self._pool.notify()


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def _after_fork() -> None:
    for engine in list(_engines):
        engine.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Turn:
    """The backend, for one caller at a time.  The one who waits for it holds the queue, so nobody overtakes."""

    def __init__(self, check: Callable[[], None]) -> None:
        """`check` raises where the backend may not be used; it is asked at both ends of every turn."""
        self.running = threading.Lock()
        self._queue, self._check = threading.Lock(), check

    def __enter__(self) -> None:
        with self._queue:
            self.running.acquire()
        try:
            self._check()
        except BaseException:
            self.running.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._check()  # what came out may be of a file that is not the same any more
        finally:
            self.running.release()


def _common(a: Items[int], b: Items[int]) -> int:
    """How many tokens both begin with."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
