"""Has workers run cases, and goes on behind the one that a worker died of."""

from __future__ import annotations

import collections
import json
import mmap
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import IO

from tests.fuzz import worker
from tests.fuzz.place import clear
from tests.fuzz.worker import PROGRESS

CHUNK = 5000  # cases of one process, then a new one
_LOOKS = 900  # tenths of a second without progress, for a process that sleeps; counted, for both may be frozen a while
_SHOWN = 3  # faults of one kind that are printed


class Run:
    """Cases of some numbers through a target, for at most so many seconds.

    `faults` is kind -> numbers of cases; the first of each kind are printed, and written to the folder `out`.
    Workers are forks of this process, so that they begin with all that is made once."""

    def __init__(
        self,
        name: str,
        case: Callable[[int], bytes],
        numbers: range,
        seconds: float | None = None,
        out: pathlib.Path | None = None,
    ) -> None:
        self.name, self.out = name, out
        self.faults: dict[str, list[int]] = collections.defaultdict(list)
        self.results = 0
        self._case, self._first, self._next, self._last = case, numbers.start, numbers.start, numbers.stop
        self._progress = mmap.mmap(-1, PROGRESS.size)
        self._start = time.monotonic()
        self._end = self._start + seconds if seconds else float("inf")

    def go(self) -> None:
        while self._next < self._last and time.monotonic() < self._end:
            self._work(min(self._next + CHUNK, self._last))
            if sys.stderr.isatty():
                print(f"\r{self.summary()}", end="", file=sys.stderr, flush=True)

    def summary(self) -> str:
        seconds, count = time.monotonic() - self._start, self._next - self._first
        return (
            f"{self.name}: {count} cases in {seconds:.0f} s, {self.results} gave a result, "
            f"{sum(map(len, self.faults.values()))} faults of {len(self.faults)} kinds"
        )

    def _work(self, last: int) -> None:
        """One worker, until it is done, dies or is stuck."""
        self._progress[:] = PROGRESS.pack(self._next, 0)
        with tempfile.TemporaryFile("w+") as faults, tempfile.TemporaryFile("w+") as stderr:
            process = os.fork()
            if not process:
                self._child(last, faults, stderr)
            died = self._watch(process)
            clear(process)
            self._next, results = PROGRESS.unpack(self._progress[:])
            self.results += results
            faults.seek(0)
            for line in faults:
                self._note(*json.loads(line))
            if died:
                stderr.seek(0)
                self._note(self._next, f"{died}: {' '.join(stderr.read()[-500:].split())}")
                self._next += 1

    def _child(self, last: int, faults: IO[str], stderr: IO[str]) -> None:
        """Never returns."""
        code = 1
        try:
            os.dup2(stderr.fileno(), 2)
            numbers = range(self._next, last)
            worker.work(worker.target(self.name).run, self._case, numbers, self._progress, faults)
            code = 0
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)

    def _watch(self, process: int) -> str | None:
        """Waits for the end; why it came early, None if it did not."""
        at, looks = -1, 0
        while not (ended := os.waitpid(process, os.WNOHANG))[0]:
            time.sleep(0.1)
            now, number = time.monotonic(), PROGRESS.unpack(self._progress[:])[0]
            at, looks = number, looks + 1 if number == at else 0
            if now > self._end or looks > _LOOKS:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                return None if now > self._end else "sleeps for ever"
        code = os.waitstatus_to_exitcode(ended[1])
        return {0: None, -signal.SIGPROF: "more than 2 s"}.get(code, f"died, {code}")

    def _note(self, number: int, fault: str) -> None:
        numbers = self.faults[re.sub(r"\d+", "N", fault.partition("'")[0])[:80]]
        numbers.append(number)
        if len(numbers) <= _SHOWN:
            print(f"{self.name}, case {number}: {fault}", flush=True)
            if self.out:
                self.out.mkdir(parents=True, exist_ok=True)
                (self.out / f"{self.name}-{number}").write_bytes(self._case(number))
