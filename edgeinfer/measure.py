"""What this machine can do, measured: bytes read (decode's limit) and 8-bit products a second (prefill's)."""

import statistics
import time
from collections.abc import Callable

import numpy as np

from edgeinfer import machine
from edgeinfer.models import catalog
from edgeinfer.simd_kernels import cpu, pack, record
from edgeinfer.simd_kernels.layout import aligned, dots
from edgeinfer.simd_kernels.workers import Workers

BUFFER = 256 << 20  # bytes read where no file is given: more than caches hold
READ_GRAIN = 4096  # bytes the reading kernel takes at a time
DOT_TURNS = 400_000
SECONDS, BRIEF = 0.3, 0.05  # a measurement takes about this long; a brief one, beside something else that is measured


class Probe:
    """Measures what `threads` threads of this machine can do, at best, or if `brief` what it does just now: a core that
    others share is at times a third slower, for milliseconds or for minutes."""

    def __init__(self, threads: int) -> None:
        """BackendError where the system has no more threads."""
        self._lanes, self.threads = cpu.host().tier.lanes, threads
        names = ("run", "probe.read", "probe.dots")
        self._kernels = pack.load(names, cpu.host().tier, catalog.home() / "kernels")
        self._workers, self._outs = Workers(threads, self._kernels["run"]), aligned(128 * threads)

    def read_bandwidth(self, data: np.ndarray | None = None, brief: bool = False) -> float:
        """Bytes a second that are read of `data` uint8[bytes] (a mapped file's, or a buffer's), each thread its own
        part."""
        if data is None:
            data = aligned(min(BUFFER, machine.available_memory() // 2))
            data[:] = 1  # or all its pages would be the same one
        share = len(data) // self.threads // READ_GRAIN * READ_GRAIN
        once = self._operation("probe.read", record.PROBE_READ, address=data.ctypes.data, size=share)
        once()  # pages of a file are mapped when first touched
        return share * self.threads / _seconds(once, brief)

    def dot_peak(self, brief: bool = False) -> float:
        """Products of 8-bit numbers a second, all from registers."""
        once = self._operation("probe.dots", record.PROBE_DOTS, turns=DOT_TURNS)
        return DOT_TURNS * dots(self._lanes) * 4 * self._lanes * self.threads / _seconds(once, brief)

    def close(self) -> None:
        """End the threads."""
        self._workers.close()

    def _operation(self, kernel: str, form: record.Record, **values: int) -> Callable[[], None]:
        """One operation by all threads."""
        head = {"kernel": self._kernels[kernel], "wait": 1, "count": 0, "chain": 0, **record.NO_BOARD}
        numbers = np.array(form.write(**head, out=self._outs.ctypes.data, **values), np.int64)
        return lambda: self._workers.run(numbers.ctypes.data, 1, 0)


def _seconds(once: Callable[[], None], brief: bool) -> float:
    """The shortest time it takes, or if `brief` the median of a few."""
    taken: list[float] = []
    deadline = time.perf_counter() + (BRIEF if brief else SECONDS)
    while not taken or time.perf_counter() < deadline:
        start = time.perf_counter()
        once()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) if brief else min(taken)
