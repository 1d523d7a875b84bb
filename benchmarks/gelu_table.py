"""How far logits are from llama.cpp's with GELU as it is, and as llama.cpp looks it up.

    python benchmarks/gelu_table.py     (with the conformance data in ../shared)

For every conformance model with tanh GELU, on the reference backend: the largest difference from llama.cpp's logits
with the exact function; with the values of llama.cpp's table (`oracle.gelu_of_llama_cpp`); and how far the exact
logits move, median of five, where both input and output of GELU are off by up to 2**-11 at random, which is what
rounding to float16 does."""

from __future__ import annotations

import contextlib
import pathlib
import sys
from collections.abc import Callable, Iterator

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from edgeinfer import plan  # noqa: E402
from edgeinfer.formats import gguf  # noqa: E402
from edgeinfer.reference import ReferenceBackend  # noqa: E402
from edgeinfer.reference_ops import rows  # noqa: E402
from tests.models import guide, oracle  # noqa: E402


def logits(name: str) -> np.ndarray:
    folder, case = oracle.load(guide.SHARED, name)
    prompt = case["prompt"]
    with gguf.open(folder / case["file"]) as file:
        n_ctx = min(case["n_ctx"], plan.trace(file).config.context)
        backend = ReferenceBackend(plan.trace(file, n_ctx), n_ctx, len(prompt), 1)
        return oracle.run(backend, backend.open(), prompt, [len(prompt)])


def noisy(seed: int) -> Callable[[np.ndarray], np.ndarray]:
    random = np.random.default_rng(seed)
    exact = rows.ACTIVATIONS["gelu"]

    def off(x: np.ndarray) -> np.ndarray:
        return x * (1 + random.uniform(-(2.0**-11), 2.0**-11, x.shape).astype(np.float32))

    return lambda x: off(exact(off(x)))


@contextlib.contextmanager
def gelu(function: Callable[[np.ndarray], np.ndarray]) -> Iterator[None]:
    exact = rows.ACTIVATIONS["gelu"]
    rows.ACTIVATIONS["gelu"] = function
    try:
        yield
    finally:
        rows.ACTIVATIONS["gelu"] = exact


def main() -> None:
    print("| model | exact | table | rounded at random | tolerance |\n| --- | --- | --- | --- | --- |")
    for name in sorted(case["name"] for found in guide.cases().values() for case in found):
        folder, case = oracle.load(guide.SHARED, name)
        if not case["gelu_through_f16_table"]:
            continue
        quantised = case["weights"] != "F32"
        wanted = np.load(folder / case["logits_dequant" if quantised else "logits"])
        limit = case["suggested_max_abs_diff_vs_dequant" if quantised else "suggested_max_abs_diff"]
        exact = logits(name)
        with oracle.gelu_of_llama_cpp():
            table = logits(name)
        moved = []
        for seed in range(5):
            with gelu(noisy(seed)):
                moved.append(np.abs(logits(name) - exact).max())
        differences = np.abs(exact - wanted).max(), np.abs(table - wanted).max(), np.median(moved), limit
        print(f"| {name} | " + " | ".join(f"{value:.1e}" for value in differences) + " |", flush=True)


if __name__ == "__main__":
    main()
