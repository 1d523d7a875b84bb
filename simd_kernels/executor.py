"""The kernel that runs a whole plan on every worker: a list of operations, with barriers where one reads what others have written."""

from edgeinfer.simd_kernels.emit import I64, Emitter, Value
from edgeinfer.simd_kernels.layout import SYNC_ARRIVED, SYNC_ROUND, SYNC_STEP_ASIDE
from edgeinfer.simd_kernels.record import OP_BYTES

PATIENCE = 2000  # pauses before stepping aside: some 20 us


def run(e: Emitter, ops: Value, count: Value, step: Value, thread: Value, threads: Value, sync: Value) -> None:
    """Run `count` operations at `ops` as worker `thread` of `threads`."""
    with e.loop(0, count) as i:
        op = ops + i * OP_BYTES
        e.jump(e.field(op, 0), op, step, thread, threads)
        with e.when((e.field(op, 1) > 0) & (threads > 1)):
            barrier(e, threads, sync)


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
