"""How many threads decode and prefill are worth on this machine: measured once for a model's shape, and kept.

Nothing else is tuned, as nothing else was seen to win by more than the noise: chunks of 64 kB to 2 MB
(`benchmarks/neighbours.py`), 4 to 16 rows side by side, 256 to 1,024 bytes asked for ahead.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeinfer import machine
from edgeinfer.backend import Chunk
from edgeinfer.cpu import CpuBackend
from edgeinfer.models import catalog
from edgeinfer.plan import Plan
from edgeinfer.simd_kernels.pack import write_whole

SECONDS = 2.0  # for each of the two
ROUNDS = 7  # of both counts in turn, before the default is given up
MARGIN = 1.03  # and only for something that many times as fast
CONTEXT, PROMPT = 256, 32


@dataclass(frozen=True)
class Threads:
    """For steps of one token, and of more."""

    decode: int
    prefill: int


def default() -> Threads:
    """All cores for both."""
    return Threads(machine.cores(), machine.cores())


def tune(plan: Plan) -> Threads:
    """Measure a model; takes less than 5 seconds beside the loading."""
    cores, context = machine.cores(), min(CONTEXT, plan.config.context)
    backend = CpuBackend(plan, context, cores, "f16", PROMPT, 1)
    try:
        seq, logits = backend.open(), np.zeros((1, plan.width), np.float32)
        if plan.reader:
            backend.read_text(seq, [1])

        def seconds(count: int, tokens: int) -> float:
            backend.use(count, count)
            start = time.perf_counter()
            backend.step([Chunk(seq, [1] * tokens, 1)], logits)
            took = time.perf_counter() - start
            backend.cut(seq, 0)
            return took

        decode = choose(lambda count: seconds(count, 1), counts(cores))
        return Threads(decode, choose(lambda count: seconds(count, backend.n_batch), counts(cores)))
    finally:
        backend.close()


def counts(cores: int) -> list[int]:
    """Numbers of threads to try, all cores first."""
    return sorted({cores, cores - 1, cores * 3 // 4, cores // 2, cores // 4, 1} - {0}, reverse=True)


def choose(seconds: Callable[[int], float], candidates: list[int]) -> int:
    """The first of the candidates, unless another is quicker by more than the noise."""
    deadline = time.perf_counter() + SECONDS
    usual, *others = candidates
    seconds(usual)  # what is only slow the first time
    first = {}
    for count in others:
        if time.perf_counter() < deadline:
            first[count] = seconds(count)
    if not first:
        return usual
    best = min(first, key=lambda count: first[count])
    pairs: list[tuple[float, float]] = []
    while len(pairs) < ROUNDS and time.perf_counter() < deadline:
        pairs.append((seconds(usual), seconds(best)))
    wins = sum(there > here * MARGIN for there, here in pairs)
    middle = [float(np.median(side)) for side in zip(*pairs, strict=True)] or [0.0, 0.0]
    return best if wins > ROUNDS * 3 // 4 and middle[0] > middle[1] * MARGIN else usual


def kept(plan: Plan) -> Threads:
    """What was kept for this CPU and a model of this shape, or the default."""
    numbers = _read().get(machine.cpu_name(), {}).get(_shape(plan))
    cores = machine.cores()
    if not isinstance(numbers, list) or len(numbers) != 2:
        return default()
    if any(type(number) is not int or not 1 <= number <= cores for number in numbers):
        return default()  # of a time when this process had more cores
    return Threads(*numbers)


def keep(plan: Plan, threads: Threads) -> Path:
    """Write it down, in one step; the file.  OSError where it cannot be written."""
    path, everything = _path(), _read()
    own = everything.setdefault(machine.cpu_name(), {})
    own[_shape(plan)] = [threads.decode, threads.prefill]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(everything, indent=1).encode())
    return path


def _path() -> Path:
    return catalog.home() / "threads.json"


def _shape(plan: Plan) -> str:
    """Models of one shape and size have the same work to do."""
    size = sum(plan.tensors[op.weights[0]].nbytes for op in plan.ops if op.kind == "linear")
    return f"{plan.config.arch} {plan.config.layers} x {plan.config.dim}, {size} bytes"


def _read() -> dict[str, dict[str, Any]]:
    """By CPU, then by shape; nothing where the file is missing, not to be read or damaged."""
    try:
        data = json.loads(_path().read_bytes())
    except OSError:
        return {}
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not all(isinstance(shapes, dict) for shapes in data.values()):
        warnings.warn(f"{_path()} is damaged and ignored; `edgeinfer tune` writes it anew", stacklevel=3)
        return {}
    return data
