"""Worker threads: every step is one compiled call on each of them.

The calling thread is worker 0.  The others sleep on a lock between steps; a compiled call holds no interpreter lock,
so they truly run side by side.
"""

from __future__ import annotations

import ctypes
import sys
import threading

import numpy as np

from edgeinfer.simd_kernels.layout import SYNC_BYTES, SYNC_STEP_ASIDE, aligned

RUN = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)


def step_aside() -> int:
    """Address of the C library's sched_yield, 0 where there is none."""
    if sys.platform == "win32":
        return 0
    function = ctypes.CDLL(None).sched_yield
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class Workers:
    """`threads` workers that run lists of operations together.  One caller at a time."""

    def __init__(self, threads: int, run: int) -> None:
        self.threads = threads
        self._run = RUN(run)
        self._sync = aligned(SYNC_BYTES)
        self._sync[SYNC_STEP_ASIDE : SYNC_STEP_ASIDE + 8].view(np.int64)[0] = step_aside()
        self._work: tuple[int, int, int] | None = None
        self._start = [threading.Semaphore(0) for _ in range(threads - 1)]
        self._done = threading.Semaphore(0)
        for number in range(1, threads):
            threading.Thread(target=self._serve, args=(number,), name=f"edgeinfer-{number}", daemon=True).start()

    def run(self, operations: int, count: int, step: int) -> None:
        """Run `count` operation records at address `operations`; returns when all workers are done."""
        self._work = (operations, count, step)
        for start in self._start:
            start.release()
        self._call(0)
        for _ in self._start:
            self._done.acquire()

    def close(self) -> None:
        """End the threads."""
        self._work = None
        for start in self._start:
            start.release()
        self._start = []

    def _serve(self, number: int) -> None:
        start = self._start[number - 1]
        while True:
            start.acquire()
            if self._work is None:
                return
            self._call(number)
            self._done.release()

    def _call(self, number: int) -> None:
        assert self._work is not None
        operations, count, step = self._work
        self._run(operations, count, step, number, self.threads, self._sync.ctypes.data)
