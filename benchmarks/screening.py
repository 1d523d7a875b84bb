"""Whether screening the output matrix gives the tokens of the full pass, and what it is worth.

usage: screening.py MODEL.gguf [POSITIONS 20000] [THREADS 1]
       screening.py --speed MODEL.gguf [TOKENS 128] [THREADS 1]

The first compares, at so many positions of real text (Python's standard library, licences), the largest logit and the
40 largest with those of the full pass: ids and logits bit by bit.  The second generates in turns with the view of the
matrix, without it (the few largest picked from all logits), and from all logits in numpy, greedily and as by default;
medians of the rounds."""

import glob
import os
import statistics
import sys
import time
from collections.abc import Iterator

import numpy as np

from edgeinfer import LLM
from edgeinfer.backend import Chunk, Top, top
from edgeinfer.cpu import CpuBackend
from edgeinfer.formats import gguf
from edgeinfer.plan import trace
from edgeinfer.sampling import Sampler
from edgeinfer.selection import FIRST, WANTED, Selection
from edgeinfer.simd_kernels.record import OP_BYTES
from edgeinfer.tokenizer import Tokenizer

LENGTH = 512  # tokens of a text


def texts() -> Iterator[str]:
    for pattern in (
        os.path.join(os.path.dirname(os.__file__), "*.py"),
        "/usr/share/common-licenses/*",
        "/usr/share/doc/*/*",
    ):
        for path in sorted(glob.glob(pattern)):
            if os.path.isfile(path) and not path.endswith(".gz"):
                with open(path, encoding="utf-8", errors="replace") as file:
                    yield file.read(16 * LENGTH)


def end(backend: CpuBackend, selection: Selection, k: int) -> np.ndarray:
    """Bits of ids and logits of the end of a step with the view, once more for the same activations."""
    first, program = len(backend._records) - 1, selection._screened
    program.set(-1, WANTED, k)
    program.set(-2, WANTED, k + FIRST)
    selection._counts.clear()
    backend._workers.run(program.address + first * OP_BYTES, program.count - first, backend._step.address)
    return bits(selection._rows["found"].top(selection.count("found"), k))


def bits(found: Top) -> np.ndarray:
    return np.array([found.ids, np.float32(found.logits).view(np.int32)])


def compare(path: str, positions: int, threads: int) -> None:
    file = gguf.open(path)
    tokenizer, backend = Tokenizer.from_gguf(file), CpuBackend(trace(file, LENGTH), LENGTH, threads, "f16", LENGTH, 1)
    selection, seq = backend._selection, backend.open()
    selection._view_pays = lambda k: selection._screen.ready  # type: ignore[method-assign]
    logits = np.empty((1, backend.n_vocab), np.float32)
    seen = wrong = 0
    rescored: dict[int, list[int]] = {1: [], 40: []}
    for text in texts():
        backend.cut(seq, 0)
        for id in tokenizer.encode(text)[:LENGTH]:
            got = bits(backend.step_top(Chunk(seq, [id], 1), 40))
            if not selection._screen.ready:
                continue
            rescored[40].append(selection.count("rescored"))
            greedy = end(backend, selection, 1)
            rescored[1].append(selection.count("rescored"))
            backend._write_to(logits)
            backend._counters.clear()
            last = backend._program.address + (backend._program.count - 1) * OP_BYTES
            backend._workers.run(last, 1, backend._step.address)
            same = np.array_equal(got, bits(top(logits[0], 40))) and np.array_equal(greedy, bits(top(logits[0], 1)))
            seen, wrong = seen + 1, wrong + (not same)
            if seen % 1000 == 0 or seen == positions:
                means = ", ".join(f"{np.mean(n):.0f} rows computed for the {k} largest" for k, n in rescored.items())
                print(f"{seen} positions, {wrong} differ; {means} of {backend.n_vocab}", flush=True)
            if seen == positions:
                return


def speed(path: str, tokens: int, threads: int, rounds: int = 5) -> None:
    with LLM(path, n_ctx=1024, n_threads=threads) as llm:
        ids = llm.tokenize(next(texts()))[:64]
        selection = llm._engine._backend._selection
        while not selection._screen.ready:
            llm.generate(ids, tokens, ignore_eos=True)
        view, few = selection._screen, Sampler.top
        for sampling in ({"temperature": 0.0}, {}):
            times: dict[str, list[float]] = {"view": [], "no view": [], "all logits": []}
            for number in range(rounds):
                for way, taken in times.items():
                    selection._screen = view if way == "view" else None
                    Sampler.top = 0 if way == "all logits" else few  # type: ignore[assignment, method-assign]
                    answer = llm.generate(ids, tokens, seed=number, ignore_eos=True, **sampling)
                    taken.append(answer.timings.tokens_per_s)
                Sampler.top = few  # type: ignore[method-assign]
            rates = {way: statistics.median(taken) for way, taken in times.items()}
            gain = rates["view"] / rates["all logits"]
            text = ", ".join(f"{way} {rate:.1f}" for way, rate in rates.items())
            print(f"{threads} threads, {sampling or 'default'}: tokens/s {text}; view {gain:.2f} times", flush=True)


def main() -> None:
    arguments = [a for a in sys.argv[1:] if a != "--speed"]
    numbers = [int(a) for a in arguments[1:]]
    start = time.perf_counter()
    if "--speed" in sys.argv:
        speed(arguments[0], *(numbers or [128]))
    else:
        compare(arguments[0], *(numbers or [20000]))
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
