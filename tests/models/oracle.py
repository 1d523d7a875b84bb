"""Judges of an architecture, over the conformance kit: the reference backend by llama.cpp, the cpu backend by it."""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from edgeinfer import plan
from edgeinfer.backend import Backend, Chunk
from edgeinfer.cpu import CpuBackend
from edgeinfer.errors import EdgeInferError
from edgeinfer.formats import gguf
from edgeinfer.reference import ReferenceBackend
from edgeinfer.reference_ops import rows

ODD_PIECES = (1, 5, 2, 9)  # steps of so many tokens, over and over
AS_ROUNDED = 1e-2  # how near logits must be with GELU rounded as llama.cpp's, for which the kit allows 0.03 and more


def check_contradictions(path: pathlib.Path) -> None:
    """Each of an architecture's numbers changed by itself: the plan is traced, or an error of one line says why not."""
    with gguf.open(path) as file:
        prefix = str(file.get("general.architecture", str))
        numbers = [key for key, value in file.metadata.items() if key.startswith(prefix) and type(value) is int]
    assert f"{prefix}.block_count" in numbers
    for key in numbers:
        for value in (0, 3, 2**24):
            with gguf.open(path, override={key: value}) as file:
                try:
                    plan.trace(file, 64)
                except EdgeInferError as error:
                    assert len(str(error).splitlines()) == 1


def check(shared: pathlib.Path, name: str) -> None:
    """Logits of every prompt position, the greedy continuation, and the prompt in pieces."""
    folder, case = load(shared, name)
    # a quantised file is judged by llama.cpp on the dequantised weights: its own activations are rounded too
    kind, versus = ("", "") if case["weights"] == "F32" else ("_dequant", "_vs_dequant")
    wanted, limit = np.load(folder / case[f"logits{kind}"]), case[f"suggested_max_abs_diff{versus}"]
    limit = min(limit, AS_ROUNDED) if case["gelu_through_f16_table"] else limit
    prompt = case["prompt"]
    with gguf.open(folder / case["file"]) as file:
        n_ctx = min(case["n_ctx"], plan.trace(file).config.context)  # llama.cpp lets the context be larger
        backend = ReferenceBackend(plan.trace(file, n_ctx), n_ctx, n_ctx, 1)
        seq = backend.open()
        with gelu_of_llama_cpp() if case["gelu_through_f16_table"] else contextlib.nullcontext():
            logits = run(backend, seq, prompt, [len(prompt)])
            assert np.abs(logits - wanted).max() <= limit
            assert continue_greedily(backend, seq, logits[-1], 16) == case[f"greedy{kind}"]
        backend.cut(seq, 0)
        check_pieces(backend, seq, prompt, run(backend, seq, prompt, [len(prompt)]), near(case))


def check_cpu(shared: pathlib.Path, name: str) -> None:
    """The reference's logits of every prompt position; where activations are rounded, about as near as llama.cpp's."""
    folder, case = load(shared, name)
    prompt, rounded = case["prompt"], case["weights"] not in ("F32", "F16", "BF16")
    with gguf.open(folder / case["file"]) as file:
        traced = plan.trace(file, len(prompt))
        reference = ReferenceBackend(traced, len(prompt), len(prompt), 1)
        wanted = run(reference, reference.open(), prompt, [len(prompt)])
        with contextlib.closing(CpuBackend(traced, len(prompt), 2, "f32", len(prompt), 1)) as backend:
            limit = 1.5 * case["max_abs_quantised_vs_dequantised"] if rounded else near(case)
            check_pieces(backend, backend.open(), prompt, wanted, limit)


def load(shared: pathlib.Path, name: str) -> tuple[pathlib.Path, dict[str, Any]]:
    """The folder of the kit's models, and what it says of one."""
    folder = shared / "kit" / "arch"
    return folder, json.loads((folder / f"{name}.json").read_text())


def near(case: dict[str, Any]) -> float:
    """How far apart logits may be that differ only by the order of sums, which models amplify."""
    return max(1e-4, *case["selfcheck"].values())


def check_pieces(backend: Backend, seq: int, prompt: list[int], wanted: np.ndarray, limit: float) -> None:
    """In one step, token by token, in odd pieces, and after a cut."""
    whole, single = [len(prompt)], [1] * len(prompt)
    for kept, pieces in ((0, whole), (0, single), (0, ODD_PIECES * len(prompt)), (7, whole)):
        kept = backend.cut(seq, kept)
        assert np.abs(run(backend, seq, prompt[kept:], pieces) - wanted[kept:]).max() <= limit


@contextlib.contextmanager
def gelu_of_llama_cpp() -> Iterator[None]:
    """While it lasts GELU is rounded as llama.cpp's is, which looks it up in a table of float16.

    Models amplify that rounding up to the kit's tolerance and beyond (benchmarks/gelu_table.py); with it the maths can
    be told from it.
    """
    exact = rows.ACTIVATIONS["gelu"]

    def rounded(x: np.ndarray) -> np.ndarray:
        y = exact(x.astype(np.float16).astype(np.float32)).astype(np.float16).astype(np.float32)
        return np.where(x >= 10, x, np.where(x <= -10, np.float32(0), y))

    rows.ACTIVATIONS["gelu"] = rounded
    try:
        yield
    finally:
        rows.ACTIVATIONS["gelu"] = exact


def run(backend: Backend, seq: int, ids: list[int], pieces: Sequence[int]) -> np.ndarray:
    """Logits, f32[tokens, vocab], of `ids` in steps of so many tokens as `pieces` says."""
    logits = np.empty((len(ids), backend.n_vocab), np.float32)
    start = 0
    for piece in pieces:
        chunk = ids[start : start + piece]
        if chunk:
            backend.step([Chunk(seq, chunk, len(chunk))], logits[start : start + len(chunk)])
        start += piece
    return logits


def continue_greedily(backend: ReferenceBackend, seq: int, logits: np.ndarray, count: int) -> list[int]:
    ids: list[int] = []
    row = logits[None].copy()
    while len(ids) < count:
        ids.append(int(row.argmax()))
        backend.step([Chunk(seq, ids[-1:], 1)], row)
    return ids
