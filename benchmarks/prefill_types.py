"""How fast 512 rows of activations pass each tensor type's weights, as shares of the 8-bit peak.

usage: prefill_types.py TIER [TYPE ...]
TIER: an instruction set this CPU has, or avxvnni where it has that in AVX-512's encoding.  Every type in turn, ROUNDS
times over, is the linear layer of 2,048 x 2,048 random weights on one thread; the probe of the peak runs before and
after each, for a core that others share changes its speed all the time.  For each type: its share of the peak beside it
(median), and of the fastest type's; last, what making codes of the activations takes, in parts of that one's layer."""

import statistics
import sys
import time

import numpy as np
import tiers

from edgeinfer.formats.ggml import GgmlType
from edgeinfer.simd_kernels import layout, record
from edgeinfer.simd_kernels.workers import Workers

TOKENS, ROWS, COLUMNS, ROUNDS = 512, 2048, 2048, 30
PRODUCTS = TOKENS * ROWS * COLUMNS
TURNS = 200_000  # of the probe: right after a layer its first 50 us are a fifth slower
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
        panel=kernels[f"panel.{name}"],
        tile=kernels[layout.tile_name(name)],
        block=kind.block,
        block_bytes=kind.bytes,
        group=layout.group(name),
    )


def main() -> None:
    types = sys.argv[2:] or TYPES
    names = {"run", "linear.quantised", "quantise", "probe.dots", *map(layout.tile_name, types)}
    tier, kernels = tiers.linked(sys.argv[1], names | {f"panel.{kind}" for kind in types})
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
    probe = Layer(record.PROBE_DOTS, step, kernel=kernels["probe.dots"], turns=TURNS, out=layout.aligned(128))

    def peak() -> float:
        """Products a second, all from registers."""
        return TURNS * layout.dots(tier.lanes) * 4 * tier.lanes / probe.seconds(workers)

    layers = {"quantise": quantise} | {name: linear(name, kernels, step, x, out) for name in types}
    times: dict[str, list[float]] = {name: [] for name in layers}
    for _ in range(ROUNDS):
        for name, layer in layers.items():
            before, seconds = peak(), layer.seconds(workers)
            times[name].append(seconds * (before + peak()) / 2)
    report({name: statistics.median(some) / PRODUCTS for name, some in times.items()}, tier.name)


def report(times: dict[str, float], tier: str) -> None:
    """`times`: of a layer, in those of as many products at the peak."""
    quantise, fastest = times.pop("quantise"), min(times.values())
    print(tier)
    for name, layer in sorted(times.items(), key=lambda item: item[1]):
        print(f"{name:8s} {100 / layer:4.0f} % of the peak {fastest / layer:5.2f}")
    print(f"quantise {100 * quantise / fastest:.1f} % of a layer")


if __name__ == "__main__":
    main()
