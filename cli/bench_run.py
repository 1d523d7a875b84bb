"""What `edgeinfer bench` does: tests in turns with a peer, and llama-bench's keys for what came out."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timezone

from edgeinfer import __version__
from edgeinfer.benchmark import Bench, Limits, Run, Test, load
from edgeinfer.cli.bench_report import Row
from edgeinfer.cli.bench_versus import Peer
from edgeinfer.errors import RequestError
from edgeinfer.machine import cpu_name
from edgeinfer.simd_kernels import cpu


def measure(bench: Bench, test: Test, repetitions: int, warmup: bool, peer: Peer | None) -> list[Row]:
    """The rows of a test: the peer's, if there is one, then ours.  They take turns."""
    turns: list[Callable[[], Run]] = [lambda: bench.run(test)]
    if peer and not test.rows:
        turns.append(lambda: bench.watched(test, lambda: peer.run(test.prompt, test.gen, test.depth)))
    taken: list[list[Run]] = [[] for _ in turns]
    for number in range(repetitions + warmup):
        for turn, runs in zip(turns, taken, strict=True):
            runs.append(turn())
            if warmup and not number:
                runs.clear()
    ours = _row(bench, test, taken[0])
    if len(turns) == 1:
        return [ours]
    theirs = {**_row(bench, test, taken[1]), "backends": "llama.cpp"}
    return [theirs, {**ours, "times": theirs["median_ns"] / ours["median_ns"]}]


def _row(bench: Bench, test: Test, runs: Sequence[Run]) -> Row:
    """llama-bench's keys, as far as they mean something here, and ours from `test` on."""
    types = Counter(tensor.type.name for tensor in bench.plan.tensors.values() if len(tensor.shape) > 1)
    elements = sum(tensor.nbytes // tensor.type.bytes * tensor.type.block for tensor in bench.plan.tensors.values())
    seconds, limits = [run.seconds for run in runs], Limits.middle([run.limits for run in runs])
    nanoseconds, speeds = [1e9 * s for s in seconds], [test.tokens / s for s in seconds]
    shares = [run.share for run in runs if run.share is not None]
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
        "use_mmap": bench.weights == "mmap",
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
        "load": load(),
        "read_bandwidth": limits.read,
        "product_peak": limits.products,
        "limit": limits.of(test),
        "limit_unit": "GMAC/s" if test.prompt else "GB/s",
        "share_of_limit": statistics.median(shares) if shares else None,
    }


def phases(bench: Bench, test: Test) -> list[Row]:
    """As rows, the longest first; `share_of_limit` only of those that multiply weights."""
    rows = []
    for phase in bench.phases(test):
        row: Row = {"name": phase.name, "ns": 1e9 * phase.seconds, "bytes": phase.bytes, "products": phase.products}
        work = phase.products if test.prompt else phase.bytes
        rows.append({**row, "share_of_limit": work / phase.possible if work and phase.possible else None})
    return rows


def start(path: str, like: Row, kind: str) -> Row:
    """From the shell to the first token: "cold" without kernels kept from earlier, "warm" with them."""
    command = [sys.executable, "-m", "edgeinfer", "run", "-m", path, "-p", "Hi", "-n", "1"]
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
