"""What a process does that runs cases one after the other, and the cases themselves.

Case number i of a target and a seed is always the same, as long as the kit, which it may be made from, is."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import mmap
import os
import random
import signal
import struct
import warnings
from collections.abc import Callable
from typing import IO, Protocol

from tests.fuzz import judge

_TOGETHER = 32  # cases between two looks at the memory, which take as long as a small case
_WARM_UP = 30  # cases that bring in what is loaded at first use
PROGRESS = struct.Struct("<QQ")  # the case at work, and how many gave a result


class Target(Protocol):
    """A module of this folder; it may have a function `prepare` that is called once before all cases."""

    def make(self, rng: random.Random) -> bytes: ...
    def run(self, case: bytes) -> None: ...


def target(name: str) -> Target:
    module: Target = importlib.import_module(f"tests.fuzz.{name}")
    return module


def prepare(name: str) -> None:
    """What need not be done again in each worker: reads what cases are made from, and brings in what is loaded late."""
    getattr(target(name), "prepare", lambda: None)()
    for number in range(_WARM_UP):
        with contextlib.suppress(Exception), warnings.catch_warnings(record=True):
            target(name).run(case_of(name, 0, number))


def case_of(name: str, seed: int, number: int) -> bytes:
    return target(name).make(random.Random(f"{name} {seed} {number}"))


def work(
    run: Callable[[bytes], None],
    case: Callable[[int], bytes],
    numbers: range,
    progress: mmap.mmap,
    faults: IO[str],
) -> None:
    """Runs cases; a line of JSON in `faults` for each that is wrong.

    What it writes to stderr is looked at, and stays there where it dies."""
    faulthandler.register(signal.SIGPROF, chain=True)
    results = 0
    for number in numbers:
        if number % _TOGETHER == 0:
            judge.limit_memory()
        progress[:] = PROGRESS.pack(number, results)
        found, result = judge.fault(run, case(number))
        found = found or _told()
        if number % _TOGETHER == _TOGETHER - 1 and judge.peak() > judge.BYTES:
            found = found or f"one of the last {_TOGETHER} cases took {judge.peak()} bytes of memory"
        results += result
        if found:
            print(json.dumps([number, found]), file=faults, flush=True)
    progress[:] = PROGRESS.pack(numbers.stop, results)


def _told() -> str | None:
    """What went to stderr, which is empty then."""
    size = os.fstat(2).st_size
    if not size:
        return None
    told = os.pread(2, size, 0).decode(errors="replace")
    os.ftruncate(2, 0)
    os.lseek(2, 0, os.SEEK_SET)
    return f"on stderr: {' '.join(told.split())[:300]}"
