"""Worker threads: every step is one compiled call on each of them.

The calling thread is worker 0.  The others wait for work between steps; a compiled call holds no interpreter lock, so
they truly run side by side.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from functools import partial
from queue import SimpleQueue

import numpy as np

from edgeinfer.errors import BackendError
from edgeinfer.simd_kernels.layout import SYNC_STEP_ASIDE, SYNC_TIMES, SYNC_TRACE, aligned, sync_bytes

RUN = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)

Work = tuple[int, int, int, int]  # operations, count, step, workers that take part
Inbox = SimpleQueue[Work | None]  # None: the thread is to end


def step_aside() -> int:
    """Address of the C library's sched_yield, 0 where there is none."""
    if sys.platform == "win32":
        return 0
    function = ctypes.CDLL(None).sched_yield
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class Program:
    """Operation records, i64[count][OP_FIELDS], and where they lie, which takes numpy some microseconds to say."""

    def __init__(self, records: np.ndarray) -> None:
        self.records, self.count = records, len(records)
        self.address: int = records.ctypes.data


class Workers:
    """`threads` workers that run lists of operations together.  One caller at a time."""

    def __init__(self, threads: int, run: int) -> None:
        """BackendError where the system has no more threads."""
        self.threads = threads
        self._run = RUN(run)
        self._inboxes: list[Inbox] = []  # of the workers but the first
        self._launch()

    def run(self, operations: int, count: int, step: int, threads: int | None = None) -> None:
        """Run `count` operation records at address `operations` on so many workers (None: all), after the last of which
        they wait for each other: when this returns, all are done.

        Python raises an interrupt between two of its own instructions.  There are none between the first worker's
        start and the end of the step, as C goes through the list: nobody waits for one who was not started.
        """
        if self._process != os.getpid():  # threads do not live on in a forked process
            self._launch()
        threads = threads or self.threads
        work = operations, count, step, threads
        starts = [partial(inbox.put, work) for inbox in self._inboxes[: threads - 1]]
        own = partial(self._run, operations, count, step, 0, threads, self._address)
        list(map(partial.__call__, [*starts, own]))

    def times(self) -> list[tuple[int, int]]:
        """How long each worker has run since they were started and how much of that it has waited for others, in ticks
        of the machine's clock (0 where there is none).  Of the last run the others' may be missing."""
        times = self._times
        return [(times[place], times[place + 1]) for place in range(0, len(times), 8)]

    def trace(self, address: int) -> None:
        """Have the coming runs write down when each operation ended, see `executor.stamp`; 0: no longer."""
        self._sync[SYNC_TRACE : SYNC_TRACE + 8].view(np.int64)[0] = address

    def close(self) -> None:
        """End the threads."""
        for inbox in self._inboxes:
            inbox.put(None)
        self._inboxes = []

    def _launch(self) -> None:
        self._sync = aligned(sync_bytes(self.threads))
        self._sync[SYNC_STEP_ASIDE : SYNC_STEP_ASIDE + 8].view(np.int64)[0] = step_aside()
        self._times = self._sync[SYNC_TIMES:].data.cast("q")  # quicker to read than numpy where it is a few numbers
        self._address: int = self._sync.ctypes.data
        self._inboxes = []
        for number in range(1, self.threads):
            inbox: Inbox = SimpleQueue()
            thread = threading.Thread(target=self._serve, args=(number, inbox), name=f"edgeinfer-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self.close()
                raise BackendError(f"the system gives no more than {number} of {self.threads} threads") from error
            self._inboxes.append(inbox)
        self._process = os.getpid()

    def _serve(self, number: int, inbox: Inbox) -> None:
        sync = self._address
        while work := inbox.get():
            operations, count, step, threads = work
            self._run(operations, count, step, number, threads, sync)
