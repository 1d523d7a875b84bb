"""`edgeinfer bench MODEL`: speed of prefill and decode, as tokens a second and as shares of what the machine can do."""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from edgeinfer.cli import bench_plot, bench_report
from edgeinfer.cli.bench_report import Row
from edgeinfer.cli.bench_versus import Peer
from edgeinfer.errors import RequestError
from edgeinfer.models import catalog

if TYPE_CHECKING:
    from edgeinfer.benchmark import Bench, Test


def command(
    model: Annotated[str, typer.Argument(help="A GGUF file or a pulled model's name.")],
    n_prompt: Annotated[str, typer.Option("-p", "--n-prompt", help="Tokens of a prompt; several: 128,512.")] = "512",
    n_gen: Annotated[str, typer.Option("-n", "--n-gen", help="Tokens to generate.")] = "128",
    both: Annotated[list[str] | None, typer.Option("-pg", help="PROMPT,GEN: both in one test.")] = None,
    depth: Annotated[str, typer.Option("-d", "--n-depth", help="Tokens in the context before the test.")] = "0",
    rows: Annotated[str, typer.Option(help="Steps of so many tokens that all need logits: 1,2,4,8,16.")] = "",
    batch: Annotated[int, typer.Option("-b", "--batch-size", min=1, help="Tokens of a prompt in one step.")] = 512,
    threads: Annotated[str, typer.Option("-t", "--threads", help="CPU threads; all physical cores if left out.")] = "",
    repetitions: Annotated[int, typer.Option("-r", "--repetitions", min=1)] = 5,
    kv_type: Annotated[str, typer.Option(help="Type of K and V in memory: f32, f16 or q8_0.")] = "f16",
    no_warmup: Annotated[
        bool, typer.Option("--no-warmup", help="No run of each test before those that count.")
    ] = False,
    phases: Annotated[bool, typer.Option("--phases", help="Also where the time of a step goes.")] = False,
    start: Annotated[bool, typer.Option("--start", help="Also the time from nothing to the first token.")] = False,
    plot: Annotated[pathlib.Path | None, typer.Option(help="A picture of the phases under the roofline.")] = None,
    vs: Annotated[str | None, typer.Option(metavar="PYTHON", help="In turns with its llama-cpp-python.")] = None,
    output: Annotated[str, typer.Option("-o", "--output", help=f"{', '.join(bench_report.FORMATS)}.")] = "md",
    as_json: Annotated[bool, typer.Option("--json", help="As -o json.")] = False,
) -> None:
    """Measure prefill (pp) and decode (tg) as llama-bench does.

    The share is that of the machine's own limit, measured just before: a decode's bytes of weights and KV against
    the speed at which this file's pages can be read, a prefill's multiplications against the 8-bit products a second
    that the cores do from registers.
    """
    form = "json" if as_json else output
    if form not in bench_report.FORMATS:
        raise RequestError(f"-o {form!r}; must be one of {', '.join(bench_report.FORMATS)}")
    tests = _tests(_numbers(n_prompt), _numbers(n_gen), [_pair(text) for text in both or ()], depth, _numbers(rows))
    if not tests:
        raise RequestError("nothing to measure: -p, -n, -pg and --rows are all 0 or left out")
    if plot:
        bench_plot.library()

    from edgeinfer import machine
    from edgeinfer.benchmark import Bench

    path = str(catalog.resolve(model, fetch=False))
    found: list[Row] = []
    for count in _numbers(threads) or [machine.cores()]:
        with contextlib.ExitStack() as stack:
            bench = stack.enter_context(Bench(path, count, kv_type, max(test.room for test in tests), batch))
            peer = stack.enter_context(Peer(vs, path, count, bench.n_ctx, batch)) if vs else None
            for test in tests:
                found += _measure(bench, test, repetitions, not no_warmup, peer)
                if phases or plot:
                    found[-1]["phases"] = _phases(bench, test)
    if start:
        found += [_start(path, found[0], kind) for kind in ("cold", "warm")]
    if plot:
        bench_plot.roofline([row for row in found if "phases" in row], plot)
    print(bench_report.text(found, form), flush=True)


def _numbers(text: str) -> list[int]:
    """As llama-bench takes them: 128,512.  None of them is negative."""
    words = [word for word in text.split(",") if word.strip()]
    if not all(word.strip().isdigit() for word in words):
        raise RequestError(f"{text!r} must be whole numbers with commas between them")
    return [int(word) for word in words]


def _pair(text: str) -> tuple[int, int]:
    numbers = _numbers(text)
    if len(numbers) != 2 or not all(numbers):
        raise RequestError(f"-pg {text!r} must be two numbers above 0, such as 512,128")
    return numbers[0], numbers[1]


def _tests(
    prompts: Sequence[int], gens: Sequence[int], pairs: Sequence[tuple[int, int]], depth: str, rows: Sequence[int]
) -> "list[Test]":
    """All tests at all depths."""
    from edgeinfer.benchmark import Test

    return [
        test
        for before in _numbers(depth) or [0]
        for test in [
            *(Test(prompt=n, depth=before) for n in prompts if n),
            *(Test(gen=n, depth=before) for n in gens if n),
            *(Test(prompt=p, gen=g, depth=before) for p, g in pairs),
            *(Test(rows=n, depth=before) for n in rows if n),
        ]
    ]


def _measure(bench: "Bench", test: "Test", repetitions: int, warmup: bool, peer: Peer | None) -> list[Row]:
    """The rows of a test: the peer's, if there is one, then ours.  They take turns."""
    turns = [lambda: bench.run(test)]
    if peer and not test.rows:
        turns.append(lambda: peer.run(test.prompt, test.gen, test.depth))
    taken: list[list[float]] = [[] for _ in turns]
    for number in range(repetitions + warmup):
        for turn, seconds in zip(turns, taken, strict=True):
            seconds.append(turn())
            if warmup and not number:
                seconds.clear()
    ours = _row(bench, test, taken[0])
    if len(turns) == 1:
        return [ours]
    theirs = {**_row(bench, test, taken[1]), "backends": "llama.cpp"}
    return [theirs, {**ours, "times": theirs["median_ns"] / ours["median_ns"]}]


def _row(bench: "Bench", test: "Test", seconds: Sequence[float]) -> Row:
    """llama-bench's keys, as far as they mean something here, and ours from `test` on."""
    from edgeinfer import __version__, benchmark
    from edgeinfer.machine import cpu_name
    from edgeinfer.simd_kernels import cpu

    types = Counter(tensor.type.name for tensor in bench.plan.tensors.values() if len(tensor.shape) > 1)
    elements = sum(tensor.nbytes // tensor.type.bytes * tensor.type.block for tensor in bench.plan.tensors.values())
    nanoseconds, speeds = [1e9 * s for s in seconds], [test.tokens / s for s in seconds]
    limit, unit = (bench.limits.products, "GMAC/s") if test.prompt else (bench.limits.read, "GB/s")
    return {
        "build_commit": __version__,
        "build_number": 0,
        "cpu_info": cpu_name(),
        "gpu_info": "",
        "backends": "edgeinfer",
        "model_filename": bench.path,
        "model_type": f"{bench.plan.config.arch} {elements / 1e6:.0f}M {types.most_common(1)[0][0]}",
        "model_size": bench.file.size,
        "model_n_params": elements,
        "n_batch": bench.n_batch,
        "n_ubatch": bench.backend.n_batch,
        "n_threads": bench.threads,
        "type_k": bench.kv_type,
        "type_v": bench.kv_type,
        "n_gpu_layers": 0,
        "flash_attn": True,
        "use_mmap": True,
        "n_prompt": test.prompt,
        "n_gen": test.gen,
        "n_depth": test.depth,
        "test_time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "avg_ns": round(statistics.mean(nanoseconds)),
        "stddev_ns": round(_deviation(nanoseconds)),
        "avg_ts": statistics.mean(speeds),
        "stddev_ts": _deviation(speeds),
        "samples_ns": [round(ns) for ns in nanoseconds],
        "samples_ts": speeds,
        "test": test.name,
        "n_rows": test.rows,
        "median_ns": statistics.median(nanoseconds),
        "median_ts": statistics.median(speeds),
        "tier": cpu.host().tier.name,
        "load": benchmark.load(),
        "read_bandwidth": bench.limits.read,
        "product_peak": bench.limits.products,
        "limit": limit,
        "limit_unit": unit,
        "share_of_limit": bench.share(test, statistics.median(seconds)),
    }


def _phases(bench: "Bench", test: "Test") -> list[Row]:
    return [
        {"name": phase.name, "ns": 1e9 * phase.seconds, "bytes": phase.bytes, "products": phase.products}
        for phase in bench.phases(test)
    ]


def _start(path: str, like: Row, kind: str) -> Row:
    """From the shell to the first token: "cold" without kernels kept from earlier, "warm" with them."""
    command = [sys.executable, "-m", "edgeinfer.cli.main", "run", "-m", path, "-p", "Hi", "-n", "1"]
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, **({"EDGEINFER_HOME": home} if kind == "cold" else {})}
        begin = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True)
        seconds = time.perf_counter() - begin
    if done.returncode:
        raise RequestError(f"--start: {done.stderr.decode(errors='replace').strip()}")
    kept = ("build_commit", "cpu_info", "backends", "model_filename", "model_type", "model_size", "model_n_params")
    ns = round(1e9 * seconds)
    return {
        **{key: like[key] for key in kept},
        "n_threads": "",
        "test": f"start, {kind}",
        "avg_ns": ns,
        "samples_ns": [ns],
        "avg_ts": 0.0,
        "stddev_ts": 0.0,
    }


def _deviation(numbers: Sequence[float]) -> float:
    return statistics.stdev(numbers) if len(numbers) > 1 else 0.0
