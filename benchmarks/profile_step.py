"""Where the time of a step goes: every operation of a decode and a prefill step on one thread, summed by kernel.

usage: profile_step.py MODEL.gguf [TOKENS 512] [CONTEXT 64]
Times are CPU times (wall time may hold other work on a busy machine).  The whole step is quicker than its operations
one by one: chains of operations on rows keep these in the cache, and each operation on its own costs a call from
Python."""

import collections
import sys
import time

import numpy as np

from edgeinfer.backend import Chunk
from edgeinfer.cpu import CpuBackend
from edgeinfer.formats import gguf
from edgeinfer.plan import trace
from edgeinfer.simd_kernels.record import HEAD, OP_BYTES


def profile(backend: CpuBackend, chunk: Chunk, logits: np.ndarray, rounds: int) -> dict[str, float]:
    """Seconds of one step by kernel: medians over `rounds` of each operation's CPU time."""
    nodes = backend._lowered.nodes
    times, whole = np.zeros((rounds, len(nodes))), np.zeros(rounds)
    for number, row in enumerate(times):
        held = backend.length(chunk.seq)
        start = time.thread_time()
        backend.step([chunk], logits)
        whole[number] = time.thread_time() - start
        backend.cut(chunk.seq, held)
        backend._counters[:] = 0
        alone = backend._records.copy()
        alone[:, HEAD.index("chain")] = 0
        for i in range(len(nodes)):
            start = time.thread_time()
            backend._workers.run(alone.ctypes.data + i * OP_BYTES, 1, backend._step.address)
            row[i] = time.thread_time() - start
    total: dict[str, float] = collections.defaultdict(float, {"whole": float(np.median(whole))})
    for node, seconds in zip(nodes, np.median(times, 0), strict=True):
        name = node.helpers.get("dot", node.kernel).replace("dot.", "linear ")
        total[name + (" (output)" if node.rows == "outputs" else "")] += seconds
    return total


def report(title: str, total: dict[str, float], tokens: int) -> None:
    together = total.pop("whole")
    whole = sum(total.values())
    print(f"{title}: {together * 1e3:.2f} ms, {tokens / together:.1f} tokens/s; one by one {whole * 1e3:.2f} ms:")
    for name, seconds in sorted(total.items(), key=lambda item: -item[1]):
        print(f"  {name:28s} {seconds * 1e3:9.3f} ms  {100 * seconds / whole:5.1f} %")


def main() -> None:
    path, tokens, context = sys.argv[1], int((sys.argv[2:] or [512])[0]), int((sys.argv[3:] or [64])[0])
    plan = trace(gguf.open(path), 2048)
    backend = CpuBackend(plan, 2048, 1, "f16", 512, 1)
    rng = np.random.default_rng(0)
    logits = np.zeros((1, backend.n_vocab), np.float32)
    seq = backend.open()
    ids = rng.integers(300, min(20000, backend.n_vocab), max(tokens, context))
    report(f"prefill of {tokens}", profile(backend, Chunk(seq, ids[:tokens], 1), logits, 3), tokens)
    backend.step([Chunk(seq, ids[:context], 1)], logits)
    report(f"decode at {context}", profile(backend, Chunk(seq, ids[:1], 1), logits, 15), 1)


if __name__ == "__main__":
    main()
