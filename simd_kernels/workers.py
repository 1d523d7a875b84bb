"""Worker threads: every step is one compiled call on each of them.

The calling thread is worker 0.  The others wait for work between steps; a compiled call holds no interpreter lock, so
they truly run side by side.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import weakref
from functools import partial
from operator import setitem
from queue import SimpleQueue

import numpy as np

from edgeinfer.errors import BackendError
from edgeinfer.simd_kernels.layout import (
    OWN_RUNS,
    SYNC_RUN,
    SYNC_STEP_ASIDE,
    SYNC_TIMES,
    SYNC_TRACE,
    aligned,
    sync_bytes,
)
from edgeinfer.simd_kernels.record import OP_FIELDS

RUN = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 7)

Work = tuple[int, int, int, int, int, object]  # operations, count, step, workers that take part, number, what is kept
Inbox = SimpleQueue[Work | None]  # None: the thread is to end


def step_aside() -> int:
    """Address of the C library's sched_yield, 0 where there is none."""
    if sys.platform == "win32":
        return 0
    function = ctypes.CDLL(None).sched_yield
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def gather(lines: memoryview, given: list[int], process: int) -> None:
    """Wait until the workers but the first have ended as many runs as were given to them; lines: `sync` (layout.py).
    In another process than theirs, a fork, there is nobody to wait for."""
    if os.getpid() != process:
        return
    ended = range((SYNC_TIMES + 64) // 8 + OWN_RUNS, len(lines), 8)
    while any(lines[place] < count for place, count in zip(ended, given, strict=True)):
        time.sleep(0)


class Program:
    """Operation records, i64[count][OP_FIELDS], as quick to use as `Numbers` are."""

    def __init__(self, records: np.ndarray) -> None:
        self._records, self.count = records, len(records)
        self._numbers = records.data.cast("B").cast("q")
        self.address: int = records.ctypes.data

    def set(self, operation: int, field: int, number: int) -> None:
        """Change a field of an operation, which counts from the end if negative."""
        self._numbers[operation % self.count * OP_FIELDS + field] = number


class Workers:
    """`threads` workers that run lists of operations together.  One caller at a time."""

    def __init__(self, threads: int, run: int) -> None:
        """BackendError where the system has no more threads."""
        self.threads = threads
        self._run = RUN(run)
        self._inboxes: list[Inbox] = []  # of the workers but the first
        self._number = self._process = 0  # of the last run; whose the threads are
        self._sync = aligned(sync_bytes(threads))
        self._lines = self._sync.data.cast("q")  # quicker to read than numpy where it is a few numbers
        self._given: list[int] = []  # runs, to the workers but the first
        weakref.finalize(self, gather, self._lines, self._given, os.getpid())  # before an exit takes memory away
        self.address: int = self._sync.ctypes.data  # where the workers meet (layout.py)
        self._launch()

    def run(
        self, operations: int, count: int, step: int, threads: int | None = None, late: object | None = None
    ) -> None:
        """Run `count` operation records at address `operations` on so many workers (None: all).  When this returns, all
        is done.  With `late` perhaps not by all of them (parts.py): one whose core was taken away may go on for a
        while, and holds on to `late` as long.

        Python raises an interrupt between two of its own instructions.  There are none between the first worker's
        start and the end of the step, as C goes through the list: nobody waits for one who was not started.
        """
        if self._process != os.getpid():  # threads do not live on in a forked process
            self._launch()
        threads = threads or self.threads
        self._number += 2
        shared = late is not None and threads > 1
        if not shared:
            self.gather()
        self._lines[SYNC_RUN // 8] = self._number
        number = self._number if shared else 0
        work = operations, count, step, threads, number, late
        starts: list[partial[None]] = []
        for place, inbox in enumerate(self._inboxes[: threads - 1]):
            starts += partial(setitem, self._given, place, self._given[place] + 1), partial(inbox.put, work)
        own = partial(self._run, operations, count, step, 0, threads, self.address, number)
        list(map(partial.__call__, [*starts, own]))

    def gather(self) -> None:
        """Wait for workers that are late, as is to be done before anything changes that they may look at: all but the
        numbers of another step like theirs."""
        gather(self._lines, self._given, self._process)

    def times(self) -> list[tuple[int, int]]:
        """How long each worker has run since they were started and how much of that it has waited for others, in ticks
        of the machine's clock (0 where there is none).  Of the last run the others' may be missing."""
        lines = self._lines
        return [(lines[place], lines[place + 1]) for place in range(SYNC_TIMES // 8, len(lines), 8)]

    def trace(self, address: int) -> None:
        """Have the coming runs write down when each operation ended, see `executor.stamp`; 0: no longer."""
        self._lines[SYNC_TRACE // 8] = address

    def close(self) -> None:
        """End the threads; what they ran is not used any longer."""
        self.gather()
        for inbox in self._inboxes:
            inbox.put(None)
        self._inboxes = []

    def _launch(self) -> None:
        self._sync[:] = 0
        self._lines[SYNC_STEP_ASIDE // 8] = step_aside()
        self._given[:] = [0] * (self.threads - 1)
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
        while work := inbox.get():
            operations, count, step, threads, run, _ = work
            self._run(operations, count, step, number, threads, self.address, run)
            del work  # and what it keeps
