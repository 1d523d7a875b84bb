"""Decode and prefill speed of edgeinfer beside its peers on the same files, in alternation (A B C A B C ...), medians.

usage: versus.py MODEL.gguf [MODEL.gguf ...] --peer NAME=PYTHON [--peer ...] [--threads 1,2] [--rounds 5] [--table]
                 [--gen 64] [--prompt 512] [--depth 16] [--weights mmap]

NAME is llamacpp, ik or genai (openvino-genai; see peers/), or one of these with anything behind a dash, such as
ik-avx2; PYTHON is the interpreter of an environment that has it.  All run as processes of their own that wait for
their turn: decode is --gen single-token steps after --depth tokens, prefill one prompt of --prompt tokens; in models
that answer a text, such as T5, these are of the text, and ours makes one token besides.  `share` is the CPU time a turn
got over what it asked for: below about 0.9 the machine was busy with something else and the figure says little.
--table prints lines of a Markdown table as in docs/performance.md.  --weights is edgeinfer's option of that name.  A
peer that cannot load a file, or dies of it, is left out."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
from dataclasses import dataclass

PEERS = pathlib.Path(__file__).parent / "peers"
Tests = dict[str, int]  # decode, prefill -> tokens


@dataclass
class Sample:
    speed: float  # tokens per second
    share: float  # of the CPU time asked for


class Peer:
    """A process that answers `decode` and `prefill`."""

    def __init__(self, name: str, python: str, model: str, threads: int, *more: str) -> None:
        self.name = name
        script = PEERS / f"{name.partition('-')[0]}.py"
        self.process = subprocess.Popen(
            [python, str(script), model, str(threads), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        self.alive = self._line("ready") is not None

    def run(self, test: str, tokens: int) -> Sample | None:
        """One turn; None from a peer that died."""
        assert self.process.stdin
        try:
            self.process.stdin.write(f"{test} {tokens}\n")
            self.process.stdin.flush()
        except OSError:
            return None
        line = self._line("{")
        return Sample(**json.loads(line)) if line else None

    def _line(self, start: str) -> str | None:
        """The next line that begins so; libraries print others."""
        assert self.process.stdout
        return next((line for line in self.process.stdout if line.startswith(start)), None)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def measure(peers: list[Peer], rounds: int, tests: Tests) -> dict[tuple[str, str], list[Sample]]:
    """Samples by peer and test; the first round only warms up."""
    samples: dict[tuple[str, str], list[Sample]] = {}
    for number in range(rounds + 1):
        for test, tokens in tests.items():
            for peer in [peer for peer in peers if peer.alive]:
                sample = peer.run(test, tokens)
                peer.alive = sample is not None
                if sample and number:
                    samples.setdefault((peer.name, test), []).append(sample)
    return samples


def compare(
    model: str, threads: int, pythons: dict[str, str], tests: dict[str, int], given: argparse.Namespace
) -> None:
    own, table = {"ours": [given.weights]}, given.table
    peers = [
        Peer(name, python, model, threads, str(given.depth), *own.get(name, [])) for name, python in pythons.items()
    ]
    samples = measure(peers, given.rounds, tests)
    for peer in peers:
        peer.close()
    for test in tests:
        medians = {
            peer.name: Sample(
                statistics.median(sample.speed for sample in samples[peer.name, test]),
                statistics.median(sample.share for sample in samples[peer.name, test]),
            )
            for peer in peers
            if peer.alive
        }
        words = [_cell(name, medians, table) for name in pythons]
        head = [os.path.basename(model), str(threads), test]
        load = f"{os.getloadavg()[0]:.1f}"
        print("| " + " | ".join([*head, *words, load]) + " |" if table else "  ".join([*head, *words, f"load {load}"]))
        sys.stdout.flush()


def _cell(name: str, medians: dict[str, Sample], table: bool) -> str:
    """Tokens per second, and how many times as fast ours is."""
    if name not in medians:
        return "-" if table else f"{name} -"
    own, sample = medians["ours"], medians[name]
    times = "" if name == "ours" else f" ({own.speed / sample.speed:.2f})"
    return f"{sample.speed:.1f}{times}" if table else f"{name} {sample.speed:.1f}{times} share {sample.share:.2f}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("models", nargs="+")
    arguments.add_argument("--peer", action="append", default=[])
    arguments.add_argument("--threads", default="1,2")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--gen", type=int, default=64)
    arguments.add_argument("--prompt", type=int, default=512)
    arguments.add_argument("--depth", type=int, default=16)
    arguments.add_argument("--weights", default="mmap")
    arguments.add_argument("--table", action="store_true")
    given = arguments.parse_args()
    tests = {"decode": given.gen, "prefill": given.prompt}
    pythons = {"ours": sys.executable} | dict(peer.split("=", 1) for peer in given.peer)
    if given.table:
        print("| " + " | ".join(["model", "threads", "test", *pythons, "load"]) + " |")
        print("|" + " --- |" * (len(pythons) + 4))
    for model in given.models:
        for threads in given.threads.split(","):
            compare(model, int(threads), pythons, tests, given)


if __name__ == "__main__":
    main()
