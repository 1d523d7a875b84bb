"""`edgeinfer bench MODEL`: speed of prefill and decode, as tokens a second and as shares of what the machine can do."""

import json
import os
import statistics
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeinfer.errors import RequestError
from edgeinfer.models import catalog

if TYPE_CHECKING:
    from edgeinfer.cpu import CpuBackend
    from edgeinfer.plan import Plan

Row = dict[str, Any]
COLUMNS = ("model", "size", "threads", "test", "t/s", "share", "of")


def command(
    model: Annotated[str, typer.Argument(help="A GGUF file or a pulled model's name.")],
    n_prompt: Annotated[str, typer.Option("-p", "--n-prompt", help="Tokens of a prompt; several: 128,512.")] = "512",
    n_gen: Annotated[str, typer.Option("-n", "--n-gen", help="Tokens to generate.")] = "128",
    depth: Annotated[str, typer.Option("-d", "--n-depth", help="Tokens in the context before the test.")] = "0",
    threads: Annotated[str, typer.Option("-t", "--threads", help="CPU threads; all physical cores if left out.")] = "",
    repetitions: Annotated[int, typer.Option("-r", "--repetitions", min=1)] = 5,
    kv_type: Annotated[str, typer.Option(help="Type of K and V in memory: f32, f16 or q8_0.")] = "f16",
    as_json: Annotated[bool, typer.Option("--json", help="A JSON array instead of a table.")] = False,
) -> None:
    """Measure prefill (pp) and decode (tg).

    Every test runs once to warm up and then REPETITIONS times.  The share is that of the machine's own limit,
    measured just before: a decode's bytes of weights and KV against the speed at which this file's pages can be
    read, a prefill's multiplications against the 8-bit products a second that the cores do from registers.
    """
    from edgeinfer import machine

    path = str(catalog.resolve(model, fetch=False))
    tests = [("pp", n) for n in _numbers(n_prompt)] + [("tg", n) for n in _numbers(n_gen)]
    rows = []
    for count in _numbers(threads) or [machine.cores()]:
        with Bench(path, count, kv_type, max(_numbers(depth) or [0]) + max(n for _, n in tests)) as bench:
            for before in _numbers(depth) or [0]:
                rows += [bench.test(kind, n, before, repetitions) for kind, n in tests if n]
    if as_json:
        print(json.dumps(rows, indent=1))
    else:
        _print_table(rows)


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise RequestError(f"{text!r} must be whole numbers with commas between them") from None


class Bench:
    """A model on so many threads, and the machine's limits for them."""

    def __init__(self, path: str, threads: int, kv_type: str, n_ctx: int) -> None:
        from edgeinfer import measure
        from edgeinfer.cpu import CpuBackend
        from edgeinfer.formats import gguf
        from edgeinfer.plan import trace

        self.path, self.threads = path, threads
        self.file = gguf.open(path)
        self.plan = trace(self.file, n_ctx)
        self.backend = CpuBackend(self.plan, n_ctx, threads, kv_type, 512, 1)
        self.seq = self.backend.open()
        largest = max(self.plan.tensors.values(), key=lambda tensor: tensor.nbytes).data
        self.limits = {"tg": measure.read_bandwidth(threads, largest.reshape(-1)), "pp": measure.dot_peak(threads)}

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.backend.close()
        self.file.close()

    def test(self, kind: str, tokens: int, depth: int, repetitions: int) -> Row:
        """One row of the table: `tokens` tokens after `depth`, in one go ("pp") or one by one ("tg")."""
        seconds = []
        for number in range(repetitions + 1):
            self._read(depth)
            start = time.perf_counter()
            self._append(tokens, 512 if kind == "pp" else 1)
            if number:
                seconds.append(time.perf_counter() - start)
        speeds = [tokens / s for s in seconds]
        work = (
            weight_bytes(self.plan) + kv_bytes_read(self.backend, depth + tokens / 2)
            if kind == "tg"
            else products(self.plan, tokens)
        )
        return {
            "model_filename": self.path,
            "model_size": self.file.size,
            "n_threads": self.threads,
            "n_prompt": tokens if kind == "pp" else 0,
            "n_gen": tokens if kind == "tg" else 0,
            "n_depth": depth,
            "avg_ts": statistics.mean(speeds),
            "median_ts": statistics.median(speeds),
            "stddev_ts": statistics.stdev(speeds) if len(speeds) > 1 else 0.0,
            "samples_ts": speeds,
            "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            "limit": self.limits[kind],
            "share_of_limit": work * statistics.median(speeds) / self.limits[kind],
        }

    def _read(self, depth: int) -> None:
        self.backend.cut(self.seq, 0)
        self._append(depth, 512)

    def _append(self, tokens: int, at_once: int) -> None:
        import numpy as np

        from edgeinfer.backend import Chunk

        logits = np.zeros((1, self.backend.n_vocab), np.float32)
        ids = [(7919 * i + 13) % self.backend.n_vocab for i in range(tokens)]
        for first in range(0, tokens, at_once):
            part = ids[first : first + at_once]
            last = first + len(part) == tokens or at_once == 1
            self.backend.step([Chunk(self.seq, part, int(last))], logits[: int(last)])


def weight_bytes(plan: "Plan") -> int:
    """Bytes of weights read for one token: every matrix once."""
    return sum(plan.tensors[op.weights[0]].nbytes for op in plan.ops if op.kind == "linear")


def products(plan: "Plan", tokens: int) -> float:
    """Multiplications of linear layers for each token of a prompt; the output layer runs once for all of them."""
    sizes = [plan.tensors[op.weights[0]].shape for op in plan.ops if op.kind == "linear"]
    *layers, output = (rows * cols for rows, cols in sizes)
    return sum(layers) + output / tokens


def kv_bytes_read(backend: "CpuBackend", tokens: float) -> float:
    """Bytes of KV a token reads at a context of so many."""
    from edgeinfer import memory

    return memory.kv_bytes(backend.plan, backend.kv_type, max(1, int(tokens)), 1)


def _print_table(rows: list[Row]) -> None:
    table = [COLUMNS]
    for row in rows:
        kind, tokens = ("pp", row["n_prompt"]) if row["n_prompt"] else ("tg", row["n_gen"])
        unit = f"{row['limit'] / 1e9:.1f} GB/s" if kind == "tg" else f"{row['limit'] / 1e9:.0f} GMAC/s"
        table.append(
            (
                row["model_filename"].rpartition("/")[2],
                f"{row['model_size'] / 1e6:,.0f} MB",
                str(row["n_threads"]),
                f"{kind}{tokens}" + (f" @ d{row['n_depth']}" if row["n_depth"] else ""),
                f"{row['median_ts']:.2f} ± {row['stddev_ts']:.2f}",
                f"{100 * row['share_of_limit']:.0f} %",
                unit,
            )
        )
    widths = [max(len(line[i]) for line in table) for i in range(len(COLUMNS))]
    for line in table:
        print("| " + " | ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)) + " |")
        if line is COLUMNS:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    sys.stdout.flush()
