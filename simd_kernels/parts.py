"""Operations of which workers do a part each, and when these are done.

In most steps all workers wait for each other after an operation (executor.py).  In a step of one token an operation
takes microseconds, while a core that another program has been given is away for milliseconds; so there nobody waits
for a worker, but for the work.  Each such run has a number, even and larger than those before, and an operation's
*board* says how far it is: words below the number are of earlier runs.

- Rows that are done one by one, of which there is one: a word, the number while a worker is at it, then one more.
- Sums of weights in parts: a word for each part.  A worker makes a part in memory of its own, and only who then finds
  the word as it was writes it out.  So a part that does not come can be made again by others, to the same bits, and
  the worker that was held up, whenever it is back, finds that it is late and leaves.
- All else that is claimed: a word with the number of the last run in which it was done, and how many workers are in
  it.  Who finds nothing left to claim and nobody in it notes that it is done; after that nobody enters.

Words are never set back, and who comes late from an earlier run can change none.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import OWN_AGAIN, OWN_RUN, SYNC_RUN, SYNC_TIMES
from edgeinfer.simd_kernels.record import HEAD, STEP
from edgeinfer.simd_kernels.rows import claimed, get, put, sweep
from edgeinfer.simd_kernels.values import I64, Value, Var

INSIDE = 16  # bits of a word that count workers

Make = Callable[[Value, Value, Value], None]
End = Callable[[Value, Value], None]


def over(e: Emitter, sync: Value, run: Value) -> Value:
    """Whether the run has ended, perhaps without this worker."""
    return e.load_shared(sync + SYNC_RUN) > run


def line_of(sync: Value, thread: Value) -> Value:
    """The address of a worker's line where workers meet (layout.py)."""
    line: Value = sync + SYNC_TIMES + thread * 64
    return line


class Board:
    """An operation's board, looked at in run `run`."""

    def __init__(self, e: Emitter, op: Value, run: Value) -> None:
        self.e, self.run = e, run
        self.at, self.parts = (e.field(op, HEAD.index(name)) for name in ("board", "parts"))

    def once(self, work: Callable[[], None]) -> None:
        """Have one worker do it."""
        e, before = self.e, self.e.load_shared(self.at)
        with e.when(before < self.run), e.when(e.swapped(self.at, before, self.run)):
            work()
            e.store_shared(self.run + 1, self.at)

    def once_done(self) -> Value:
        return self.e.load_shared(self.at) > self.run

    def together(self, work: Callable[[], None]) -> None:
        """Go in, unless it is done."""
        e = self.e
        with e.when(e.claim(self.at) >> INSIDE < self.run):
            work()
        e.claim(self.at, -1)

    def together_done(self) -> Value:
        e, word = self.e, self.e.load_shared(self.at)
        with e.when((word >> INSIDE < self.run) & (word & (1 << INSIDE) - 1).equals(0)):
            e.swapped(self.at, word, self.run << INSIDE)
        return e.load_shared(self.at) >> INSIDE >= self.run

    def part(self, number: Value) -> Value:
        """The address of a part's word."""
        return self.at + number * 8

    def all_made(self, seen: Var) -> Value:
        """Whether all parts are; `seen`: how many of the first are known to be."""
        e = self.e
        with e.forever() as leave:
            leave(seen.get() >= self.parts)
            leave(e.load_shared(self.part(seen.get())) <= self.run)
            seen.set(seen.get() + 1)
        return seen.get() >= self.parts


def by_parts(
    e: Emitter,
    op: Value,
    step: Value,
    thread: Value,
    r: SimpleNamespace,
    out: Value,
    make: Make,
    end: End = lambda first, count: None,
) -> None:
    """f32[rows] at `out` by chunks: make(first, count, place) makes those from `first` on at `place`, and
    end(first, count) does what there is to do when they are where they belong."""
    s = STEP.read(e, step)
    run, line = e.var(I64), line_of(s.sync, thread)
    with e.when(s.sync > 0):
        run.set(e.field(line, OWN_RUN))
    with e.when(run.get() <= 0), claimed(e, r.counter, r.chunk, r.rows) as (first, count):
        make(first, count, out + first * 4)
        end(first, count)
    with e.when(run.get() > 0):
        board, results = Board(e, op, run.get()), s.results + thread * s.results_bytes
        with missing(e, board, s.sync, r.counter, e.field(line, OWN_AGAIN)) as number:
            word, first = board.part(number), number * r.chunk
            before, count = e.load_shared(word), e.least(r.chunk, r.rows - first)
            with e.when(before < board.run):
                make(first, count, results)
                with e.when(e.swapped(word, before, board.run)):
                    sweep(e, count, lambda k, mask: put(e, get(e, results + k * 4, mask), out + (first + k) * 4, mask))
                    end(first, count)
                    e.store_shared(board.run + 1, word)


@contextmanager
def missing(e: Emitter, board: Board, sync: Value, counter: Value, again: Value) -> Iterator[Value]:
    """Numbers of the parts that this worker claims, or with `again` of all, until the run is over."""
    number = e.var(I64, -1)
    with e.forever() as leave:
        with e.when(again > 0):
            number.set(number.get() + 1)
        with e.when(again <= 0):
            number.set(e.claim(counter))
        leave((number.get() >= board.parts) | over(e, sync, board.run))
        yield number.get()
