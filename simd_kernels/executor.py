"""The kernel that runs a whole plan on every worker: a list of operations, with barriers where workers must meet."""

from edgeinfer.simd_kernels.emit import I64, Emitter, Value
from edgeinfer.simd_kernels.layout import SYNC_ARRIVED, SYNC_ROUND, SYNC_STEP_ASIDE, SYNC_TIMES, SYNC_TRACE
from edgeinfer.simd_kernels.record import OP_BYTES

PATIENCE = 1000  # pauses before stepping aside: 10 to 50 us, as a pause takes 10 or 50 ns
CHAINED_ROWS = 16  # rows a worker takes through a chain of operations at a time, so that they stay in its cache


def run(e: Emitter, ops: Value, count: Value, step: Value, thread: Value, threads: Value, sync: Value) -> None:
    """Run `count` operations at `ops` as worker `thread` of `threads`, and add up how long that took and how much of it
    was waiting."""
    done, begin, waited = e.var(I64), e.ticks(), e.var(I64)
    trace = e.select(thread.equals(0), e.field(sync + SYNC_TRACE, 0), 0)
    stamp(e, trace, done.get(), 1)
    with e.forever() as leave:
        leave(done.get() >= count)
        op = ops + done.get() * OP_BYTES
        chain = e.field(op, 3)
        with e.when(chain > 0):
            run_chain(e, op, chain, step, thread, threads)
        with e.when(chain <= 0):
            e.jump(e.field(op, 0), op, step, thread, threads)
        done.set(done.get() + e.select(chain > 0, chain, 1))
        last = ops + (done.get() - 1) * OP_BYTES
        stamp(e, trace, done.get(), 0)
        with e.when((e.field(last, 1) > 0) & (threads > 1)):
            here = e.ticks()
            barrier(e, threads, sync)
            waited.set(waited.get() + (e.ticks() - here))
        stamp(e, trace, done.get(), 1)
    times = sync + SYNC_TIMES + thread * 64
    for field, ticks in ((0, e.ticks() - begin), (1, waited.get())):
        e.store(e.field(times, field) + ticks, times + 8 * field)


def stamp(e: Emitter, trace: Value, done: Value, waited: int) -> None:
    """For a profile: write down when the first worker had `done` so many operations, and when it had waited for the
    others, in i64[operations + 1][2] at `trace`, unless that is 0."""
    with e.when(trace > 0):
        e.store(e.ticks(), trace + done * 16 + 8 * waited)


def run_chain(e: Emitter, first: Value, length: Value, step: Value, thread: Value, threads: Value) -> None:
    """Take a few rows through all operations of a chain, then the next few.

    An operation's share of rows follows from a worker's number and their count, so smaller shares are more workers.
    Chains of one operation are taken so too: the same rows are a worker's own in all chains, and between these nobody
    waits."""
    rows = e.load(e.field(first, 2), I64)
    turns = (rows + (threads * CHAINED_ROWS - 1)) / (threads * CHAINED_ROWS)
    with e.loop(0, turns) as turn, e.loop(0, length) as i:
        op = first + i * OP_BYTES
        e.jump(e.field(op, 0), op, step, thread * turns + turn, threads * turns)


def barrier(e: Emitter, threads: Value, sync: Value) -> None:
    """Wait until all workers are here.  The last one to arrive opens the next round."""
    now = e.load_shared(sync + SYNC_ROUND)
    last = e.claim(sync + SYNC_ARRIVED).equals(threads - 1)
    with e.when(last):
        e.store_shared(0, sync + SYNC_ARRIVED)
        e.store_shared(now + 1, sync + SYNC_ROUND)
    waited = e.var(I64)
    with e.forever() as leave:
        leave(e.load_shared(sync + SYNC_ROUND) > now)
        e.pause()
        waited.set(waited.get() + 1)
        aside = e.field(sync + SYNC_STEP_ASIDE, 0)
        with e.when((waited.get() > PATIENCE) & (aside > 0)):
            e.jump(aside)
