"""Times opening a GGUF file and reading its tokens, with edgeinfer's reader and the gguf package's, in one process.

usage: python benchmarks/open_gguf.py MODEL.gguf"""

import statistics
import sys
import time
from collections.abc import Callable

import gguf

import edgeinfer.formats.gguf

_KEY = "tokenizer.ggml.tokens"


def open_only(path: str) -> None:
    edgeinfer.formats.gguf.open(path).close()


def ours(path: str) -> list[bytes]:
    with edgeinfer.formats.gguf.open(path) as file:
        return list(file.strings(_KEY))


def theirs(path: str) -> list[bytes]:
    field = gguf.GGUFReader(path).fields[_KEY]
    return [bytes(field.parts[index]) for index in field.data]


def seconds(read: Callable[[str], object], path: str, runs: int) -> float:
    """The median wall time of `runs` runs."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        read(path)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    path = sys.argv[1]
    if ours(path) != theirs(path):
        sys.exit("the two readers do not agree on the tokens")
    opened, ours_s, theirs_s = seconds(open_only, path, 9), seconds(ours, path, 9), seconds(theirs, path, 1)
    print(f"edgeinfer, open only      {opened * 1e3:9.1f} ms")
    print(f"edgeinfer, with tokens    {ours_s * 1e3:9.1f} ms")
    print(f"gguf package, with tokens {theirs_s * 1e3:9.1f} ms, {theirs_s / ours_s:.0f} times edgeinfer's")


if __name__ == "__main__":
    main()
