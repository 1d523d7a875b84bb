"""Where the time of a step went, from what the first worker wrote down on its way (executor.stamp)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from edgeinfer.lowering.nodes import Node
from edgeinfer.simd_kernels.workers import Workers

CALIBRATION = 0.02  # seconds, long enough to tell what a tick is to one in a thousand


class Span(NamedTuple):
    """Operations that ran without a pause between them: seconds at work, and seconds until the others were done."""

    nodes: Sequence[Node]
    seconds: float
    waited: float


class Trace:
    """i64[operations + 1][2], filled in while the workers run."""

    def __init__(self, workers: Workers, nodes: Sequence[Node]) -> None:
        self._workers, self._nodes = workers, nodes
        self._ticks = np.zeros((len(nodes) + 1, 2), np.int64)
        self._tick = self._calibrate()

    def __enter__(self) -> Trace:
        self._ticks[:] = 0
        self._workers.trace(self._ticks.ctypes.data)
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._whole = time.perf_counter() - self._start
        self._workers.trace(0)

    def spans(self) -> list[Span]:
        """In order; the last, of no operations, is the rest of the time: waking the workers, and Python.

        Operations of a chain share a span.  On the portable tier there is no clock, and all is rest."""
        found, first, before = [], 0, self._ticks[0, 1]
        for last in np.flatnonzero(self._ticks[1:, 0]).tolist():
            done, waited = self._ticks[last + 1]
            found.append(
                Span(self._nodes[first : last + 1], (done - before) * self._tick, (waited - done) * self._tick)
            )
            first, before = last + 1, waited
        return [*found, Span((), self._whole - sum(span.seconds + span.waited for span in found), 0.0)]

    def _calibrate(self) -> float:
        """Seconds of a tick, from runs of nothing some time apart; 0 where there is no clock."""
        ticks, seconds = [], []
        for _ in range(2):
            self._workers.trace(self._ticks.ctypes.data)
            self._workers.run(0, 0, 0)
            ticks.append(int(self._ticks[0, 1]))
            seconds.append(time.perf_counter())
            time.sleep(CALIBRATION)
        return (seconds[1] - seconds[0]) / (ticks[1] - ticks[0]) if ticks[1] > ticks[0] else 0.0
