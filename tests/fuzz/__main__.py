"""`python -m tests.fuzz`: runs mutated files through a target, in processes that may die of them.

    python -m tests.fuzz --target reader --seed 1 --count 100000
    python -m tests.fuzz --seconds 60                                   # all targets in turn
    python -m tests.fuzz --target plan --seed 1 --case 4711 --out FILE  # only writes this case
    python -m tests.fuzz --target plan --replay FILE ...                # runs cases that were written

Prints each fault with the number of its case, at the end what was run, and exits with 1 if there were faults."""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import sys

from tests.fuzz import worker
from tests.fuzz.runner import Run

TARGETS = ("reader", "plan", "tokenizer", "template", "folder", "step")


def main() -> int:
    given = _arguments()
    if given.case is not None:
        given.out.write_bytes(worker.case_of(given.target[0], given.seed, given.case))
        return 0
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "MALLOC_ARENA_MAX": "1"}  # threads reserve memory
    faults = 0
    for name in given.target or TARGETS:
        if given.replay:
            run = Run(name, lambda number: given.replay[number].read_bytes(), range(len(given.replay)))
        else:
            worker.prepare(name)
            numbers = range(given.first, given.first + (given.count or sys.maxsize >> 1))
            case = functools.partial(worker.case_of, name, given.seed)
            run = Run(name, case, numbers, given.seconds, given.out and given.out / f"{name}-{given.seed}")
        run.go()
        print(run.summary(), flush=True)
        faults += len(run.faults)
    return 1 if faults else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz edgeinfer.")
    parser.add_argument("--target", action="append", help=f"one of {', '.join(TARGETS)}; all if left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, help="cases of each target")
    parser.add_argument("--seconds", type=float, help="end each target after so long")
    parser.add_argument("--case", type=int, help="write this one to --out and run nothing")
    parser.add_argument("--replay", type=pathlib.Path, nargs="+", help="run these files and no others")
    parser.add_argument("--out", type=pathlib.Path, help="folder for cases with faults")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
