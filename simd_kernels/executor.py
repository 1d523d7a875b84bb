"""The kernel that runs a whole plan on every worker: a list of operations, with places where workers must meet.

There they wait for each other; or, in a run that has a number, for the work to be done, whoever does it (parts.py)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import (
    OWN_AGAIN,
    OWN_RUN,
    OWN_RUNS,
    SYNC_ARRIVED,
    SYNC_ROUND,
    SYNC_STEP_ASIDE,
    SYNC_TRACE,
)
from edgeinfer.simd_kernels.parts import Board, line_of, over
from edgeinfer.simd_kernels.record import OP_BYTES
from edgeinfer.simd_kernels.values import I64, Value

PATIENCE = 1000  # pauses before the core is given away: 10 to 50 us, as a pause takes 10 or 50 ns
LONGER = 3000  # before parts are made again: longer than a part that is under way takes
CHAINED_ROWS = 16  # rows a worker takes through a chain of operations at a time, so that they stay in its cache


@dataclass(frozen=True)
class Worker:
    """Who runs the plan: worker `thread` of `threads`, which meet at `sync`.  number: of a run in which nobody waits
    for workers, else 0."""

    e: Emitter
    step: Value
    thread: Value
    threads: Value
    sync: Value
    number: Value

    def do(self, op: Value, chain: Value) -> None:
        """This worker's share of an operation, or of a chain of them."""
        e = self.e
        with e.when(chain > 0):
            run_chain(self, op, chain)
        with e.when(chain <= 0):
            e.jump(e.field(op, 0), op, self.step, self.thread, self.threads)

    def alone(self) -> "Worker":
        return replace(self, thread=self.e.const(I64, 0), threads=self.e.const(I64, 1))


def run(
    e: Emitter, ops: Value, count: Value, step: Value, thread: Value, threads: Value, sync: Value, number: Value
) -> None:
    """Run `count` operations at `ops` as this worker, and add up how long that took and how much of it was waiting."""
    worker = Worker(e, step, thread, threads, sync, number)
    done, first, begin, waited = e.var(I64), e.var(I64), e.ticks(), e.var(I64)
    own = line_of(sync, thread)
    e.store(number, own + 8 * OWN_RUN)
    trace = e.select(thread.equals(0), e.field(sync + SYNC_TRACE, 0), 0)
    stamp(e, trace, done.get(), 1)
    with e.forever() as leave:
        op = ops + done.get() * OP_BYTES
        leave((done.get() >= count) | ((number > 0) & over(e, sync, number)))
        chain = e.field(op, 3)
        with e.when(number <= 0):
            worker.do(op, chain)
        with e.when(number > 0):
            open_operation(worker, op, chain)
        done.set(done.get() + e.select(chain > 0, chain, 1))
        last = ops + (done.get() - 1) * OP_BYTES
        stamp(e, trace, done.get(), 0)
        with e.when((e.field(last, 1) > 0) & (threads > 1)):
            here = e.ticks()
            with e.when(number <= 0):
                barrier(worker)
            with e.when(number > 0), e.loop(first.get(), done.get()) as i:
                until_done(worker, ops + i * OP_BYTES)
            first.set(done.get())
            waited.set(waited.get() + (e.ticks() - here))
        stamp(e, trace, done.get(), 1)
    for field, ticks in ((0, e.ticks() - begin), (1, waited.get())):
        e.store(e.field(own, field) + ticks, own + 8 * field)
    e.store_shared(e.field(own, OWN_RUNS) + 1, own + 8 * OWN_RUNS)


def stamp(e: Emitter, trace: Value, done: Value, waited: int) -> None:
    """For a profile: write down when the first worker had `done` so many operations, and when it had waited for the
    others, in i64[operations + 1][2] at `trace`, unless that is 0."""
    with e.when(trace > 0):
        e.store(e.ticks(), trace + done * 16 + 8 * waited)


def run_chain(worker: Worker, first: Value, length: Value) -> None:
    """Take a few rows through all operations of a chain, then the next few.

    An operation's share of rows follows from a worker's number and their count, so smaller shares are more workers.
    Chains of one operation are taken so too: the same rows are a worker's own in all chains, and between these nobody
    waits."""
    e, threads = worker.e, worker.threads
    rows = e.load(e.field(first, 2), I64)
    turns = (rows + (threads * CHAINED_ROWS - 1)) / (threads * CHAINED_ROWS)
    with e.loop(0, turns) as turn, e.loop(0, length) as i:
        op = first + i * OP_BYTES
        e.jump(e.field(op, 0), op, worker.step, worker.thread * turns + turn, threads * turns)


def open_operation(worker: Worker, op: Value, chain: Value) -> None:
    """What this worker finds to do of an operation, or of a chain, on one row.  Rows that are done one by one are done
    by the first to come, for whom the others wait: what follows, without a wait in between, may need them."""
    e, board = worker.e, Board(worker.e, op, worker.number)
    with e.when(board.parts.equals(0)):
        board.once(lambda: worker.alone().do(op, chain))
        wait(worker, board.once_done)
    with e.when(board.parts > 0):
        worker.do(op, chain)
    with e.when(board.parts < 0):
        board.together(lambda: worker.do(op, chain))


def until_done(worker: Worker, op: Value) -> None:
    """Wait until an operation that several do is done, and make its parts that do not come."""
    e, board = worker.e, Board(worker.e, op, worker.number)
    seen, again = e.var(I64), line_of(worker.sync, worker.thread) + 8 * OWN_AGAIN

    def help_out() -> None:
        e.store(e.const(I64, 1), again)
        e.jump(e.field(op, 0), op, worker.step, worker.thread, worker.threads)
        e.store(e.const(I64, 0), again)

    with e.when(board.parts > 0):
        wait(worker, lambda: board.all_made(seen), LONGER, help_out)
    with e.when(board.parts < 0):
        wait(worker, board.together_done)


def barrier(worker: Worker) -> None:
    """Wait until all workers are here.  The last one to arrive opens the next round."""
    e, sync = worker.e, worker.sync
    now = e.load_shared(sync + SYNC_ROUND)
    last = e.claim(sync + SYNC_ARRIVED).equals(worker.threads - 1)
    with e.when(last):
        e.store_shared(0, sync + SYNC_ARRIVED)
        e.store_shared(now + 1, sync + SYNC_ROUND)
    wait(worker, lambda: e.load_shared(sync + SYNC_ROUND) > now)


def wait(
    worker: Worker,
    ready: Callable[[], Value],
    patience: int = PATIENCE,
    otherwise: Callable[[], None] = lambda: None,
) -> None:
    """Pause until it is `ready`; after so many pauses do what there is to do otherwise, and give the core away."""
    e = worker.e
    waited = e.var(I64)
    with e.forever() as leave:
        leave(ready())
        e.pause()
        waited.set(waited.get() + 1)
        with e.when(waited.get() > patience):
            otherwise()
            aside = e.field(worker.sync + SYNC_STEP_ASIDE, 0)
            with e.when(aside > 0):
                e.jump(aside)
