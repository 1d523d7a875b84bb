"""Decode on all cores, alone and beside a busy loop: as it is, with workers that wait for each other, with one of
them; and with chunks of other sizes.  Tokens a second, medians of rounds in alternation.

usage: neighbours.py MODEL.gguf [SECONDS of each measurement] [ROUNDS]"""

import statistics
import subprocess
import sys
import time

from edgeinfer import files, machine
from edgeinfer.backend import Chunk
from edgeinfer.cpu import CpuBackend
from edgeinfer.lowering import nodes
from edgeinfer.plan import Plan, trace

CONTEXT, PROMPT = 256, [1, 2, 3]
CHUNKS = {
    "512 kB, 2 a worker": (512, 32, 2),
    "128 kB": (128, 32, 2),
    "64 kB, 8 a worker": (64, 8, 8),
    "2 MB": (2048, 32, 1),
}


def made(plan: Plan, most: int, least: int, count: int) -> CpuBackend:
    """A backend with chunks of so many kB, at most and at least, and so many for each worker."""
    nodes.CHUNK_BYTES, nodes.LEAST_CHUNK_BYTES, nodes.CHUNKS = most << 10, least << 10, count
    backend = CpuBackend(plan, CONTEXT, machine.cores(), "f16", len(PROMPT), 1)
    backend.step_top(Chunk(backend.open(), PROMPT, 1), 1)
    return backend


def speed(backend: CpuBackend, threads: int, waiting: bool, seconds: float) -> float:
    backend.use(threads, threads)
    backend._sums_in_parts = not waiting
    steps, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        if backend.length(0) == CONTEXT:
            backend.cut(0, len(PROMPT))
        backend.step_top(Chunk(0, [5], 1), 1)
        steps += 1
    return steps / passed


def main() -> None:
    path, seconds, rounds = sys.argv[1], float((sys.argv[2:] or [1])[0]), int((sys.argv[3:] or [5])[0])
    plan, cores = trace(files.open(path), CONTEXT), machine.cores()
    backends = {name: made(plan, *sizes) for name, sizes in CHUNKS.items()}
    for busy in (False, True):
        loop = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
        try:
            found: dict[str, list[float]] = {}
            for _ in range(rounds):
                for name, backend in backends.items():
                    for kind, how in (("all", (cores, False)), ("waiting", (cores, True)), ("one", (1, True))):
                        found.setdefault(f"{kind}, chunks of {name}", []).append(speed(backend, *how, seconds))
        finally:
            if loop:
                loop.kill()
        for label, speeds in found.items():
            print(f"{'busy' if busy else 'quiet'}: {label}: {statistics.median(speeds):.1f}", flush=True)


if __name__ == "__main__":
    main()
