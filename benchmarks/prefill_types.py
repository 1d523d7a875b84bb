"""How fast 512 rows of activations pass each tensor type's weights, as shares of the 8-bit peak.

usage: [EDGEINFER_ISA=TIER] prefill_types.py [TYPE ...]
Every type in turn, ROUNDS times over, is the linear layer of 8,192 x 2,048 random weights on one thread, and between
the rounds the probe of the peak is run. For each type: products a second (median), the share of the peak, and of the
fastest type's speed; last, what making codes of the activations takes, in parts of such a layer of the fastest type."""

import statistics
import sys
import time

import numpy as np

from edgeinfer import measure
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.models import catalog
from edgeinfer.simd_kernels import cpu, layout, pack, record
from edgeinfer.simd_kernels.workers import Workers

TOKENS, ROWS, COLUMNS, ROUNDS = 512, 8192, 2048, 7
PRODUCTS = TOKENS * ROWS * COLUMNS
TYPES = [kind.name for kind in GgmlType if kind.computable and kind.name not in layout.FLOATS]


class Layer:
    """One operation over TOKENS rows, quantised activations `x` of which are there already."""

    def __init__(self, form: record.Record, step: np.ndarray, **values: object) -> None:
        self._tokens, self._counter, self._step = np.array([TOKENS]), layout.aligned(64), step
        self._kept = [v for v in values.values() if isinstance(v, np.ndarray)]
        numbers = {name: v.ctypes.data if isinstance(v, np.ndarray) else v for name, v in values.items()}
        more = {"wait": 1, "count": self._tokens.ctypes.data, "counter": self._counter.ctypes.data}
        fields = dict.fromkeys(form.names, 0) | {k: v for k, v in more.items() if k in form.names} | numbers
        self._record = np.zeros(record.OP_FIELDS, np.int64)
        self._record[: len(form.names)] = form.write(**fields)

    def seconds(self, workers: Workers) -> float:
        self._counter[:] = 0
        start = time.perf_counter()
        workers.run(self._record.ctypes.data, 1, self._step.ctypes.data)
        return time.perf_counter() - start


def weights(kind: GgmlType) -> np.ndarray:
    """Random bytes that are ordinary numbers, whatever they are taken for: exponents of floats begin with 01."""
    return np.random.default_rng(0).integers(0, 256, ROWS * COLUMNS // kind.block * kind.bytes, np.uint8) & 0xBF | 0x20


def linear(name: str, kernels: dict[str, int], step: np.ndarray, x: np.ndarray, out: np.ndarray) -> Layer:
    kind = GgmlType[name]
    return Layer(
        record.LINEAR,
        step,
        kernel=kernels["linear.quantised"],
        x=x,
        x_stride=layout.activation_bytes(COLUMNS),
        out=out,
        out_stride=4 * ROWS,
        w=weights(kind),
        row_bytes=COLUMNS // kind.block * kind.bytes,
        rows=ROWS,
        cols=COLUMNS,
        unpack=kernels[f"unpack.{name}"],
        transpose=kernels["transpose"],
        tile=kernels[layout.tile_name(name)],
        block=kind.block,
        block_bytes=kind.bytes,
        group=layout.group(name),
    )


def main() -> None:
    types, tier = sys.argv[1:] or TYPES, cpu.host().tier
    names = {"run", "linear.quantised", "transpose", "quantise", *map(layout.tile_name, types)}
    kernels = pack.load(names | {f"unpack.{name}" for name in types}, tier, catalog.home() / "kernels")
    rooms = layout.up(TOKENS, tier.tile_tokens)
    each = layout.scratch_bytes(rooms, tier.panel_rows, COLUMNS)
    scratch, floats = layout.aligned(each), layout.aligned(4 * TOKENS * COLUMNS)
    floats.view(np.float32)[:] = np.random.default_rng(0).standard_normal(TOKENS * COLUMNS, np.float32)
    x, out = layout.aligned(rooms * layout.activation_bytes(COLUMNS)), layout.aligned(4 * TOKENS * ROWS)
    values = {"tokens": TOKENS, "scratch": scratch.ctypes.data, "scratch_bytes": each, "few": layout.FEW}
    step = np.array(record.STEP.write(**dict.fromkeys(record.STEP.names, 0) | values))
    sizes = {"x_stride": 4 * COLUMNS, "out_stride": layout.activation_bytes(COLUMNS), "width": COLUMNS}
    quantise = Layer(record.QUANTISE, step, kernel=kernels["quantise"], x=floats, out=x, **sizes)
    workers = Workers(1, kernels["run"])
    quantise.seconds(workers)
    layers = {name: linear(name, kernels, step, x, out) for name in types} | {"quantise": quantise}
    times: dict[str, list[float]] = {name: [] for name in layers}
    peaks = []
    for _ in range(ROUNDS):
        peaks.append(measure.dot_peak(1))
        for name, layer in layers.items():
            times[name].append(min(layer.seconds(workers) for _ in range(2)))
    report({name: statistics.median(some) for name, some in times.items()}, statistics.median(peaks), tier.name)


def report(times: dict[str, float], peak: float, tier: str) -> None:
    quantise = times.pop("quantise")
    fastest = min(times.values())
    print(f"{tier}: 8-bit peak {peak / 1e9:.0f} GMAC/s")
    for name, seconds in sorted(times.items(), key=lambda item: item[1]):
        speed = PRODUCTS / seconds
        print(f"{name:8s} {speed / 1e9:6.1f} GMAC/s {100 * speed / peak:4.0f} % of the peak {fastest / seconds:5.2f}")
    print(f"quantise {1e3 * quantise:.2f} ms, {100 * quantise / fastest:.1f} %")


if __name__ == "__main__":
    main()
