"""How fast a row of activations passes each tensor type's weights, against the speed of reading them and nothing else.

usage: read_speed.py [--columns 2048] [--tier avxvnni] FILE [TYPE ...]
FILE: more bytes than caches hold, whatever they are; a model for instance.  Of its pages, mapped, every type in turn
whose blocks fit makes a matrix of so many columns.  For each number of threads: bytes a second by the linear layer's
own kernel, and its share of those that the probe reads in between (medians)."""

import argparse
import statistics
import time

import numpy as np
import tiers

from edgeinfer import machine, measure
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.mapped import Mapped
from edgeinfer.simd_kernels import cpu, layout, record
from edgeinfer.simd_kernels.workers import Workers

ROUNDS, REPEATS = 3, 6
TYPES = ("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 F16").split()


class Matrix:
    """The linear layer of one row whose weights are `data`, taken as of this type."""

    def __init__(self, data: np.ndarray, type_name: str, columns: int, kernels: dict[str, int]) -> None:
        kind = GgmlType[type_name]
        self.row_bytes = columns // kind.block * kind.bytes
        self.rows = len(data) // self.row_bytes
        quantised = type_name not in layout.FLOATS
        self._one, self._step = np.ones(1, np.int64), np.zeros(len(record.STEP.names), np.int64)
        self._x, self._out = layout.aligned(8 * columns), layout.aligned(4 * self.rows)
        self._counter = layout.aligned(64)
        values = dict.fromkeys(record.LINEAR.names, 0) | {
            "kernel": kernels["linear.quantised" if quantised else "linear.float"],
            "wait": 1,
            "count": self._one.ctypes.data,
            "x": self._x.ctypes.data,
            "out": self._out.ctypes.data,
            "w": data.ctypes.data,
            "row_bytes": self.row_bytes,
            "rows": self.rows,
            "cols": columns,
            "dot": kernels[f"dot.{type_name}"],
            "counter": self._counter.ctypes.data,
            "chunk": (512 << 10) // self.row_bytes,
        }
        self._record = np.zeros(record.OP_FIELDS, np.int64)
        numbers = record.LINEAR.write(**values)
        self._record[: len(numbers)] = numbers

    def seconds(self, workers: Workers) -> float:
        """The shortest time of one pass."""

        def once() -> float:
            self._counter[:] = 0
            start = time.perf_counter()
            workers.run(self._record.ctypes.data, 1, self._step.ctypes.data)
            return time.perf_counter() - start

        return min(once() for _ in range(REPEATS))


def compare(matrix: Matrix, workers: Workers, probe: measure.Probe, data: np.ndarray) -> str:
    """The matrix and the probe in turn."""
    size = matrix.rows * matrix.row_bytes
    pairs = [(size / matrix.seconds(workers), probe.read_bandwidth(data)) for _ in range(ROUNDS)]
    speed, limit = (statistics.median(numbers) for numbers in zip(*pairs, strict=True))
    return f"{workers.threads} threads {speed / 1e9:5.1f} GB/s, {100 * speed / limit:3.0f} % of {limit / 1e9:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("types", nargs="*", default=TYPES)
    parser.add_argument("--columns", type=int, default=2048)
    parser.add_argument("--tier", default=cpu.host().tier.name)
    args = parser.parse_args()
    data = Mapped(args.file).view(0, 1 << 40)
    types = [name for name in args.types if args.columns % GgmlType[name].block == 0]
    names = {"run", "linear.quantised", "linear.float", *(f"dot.{name}" for name in types)}
    _, kernels = tiers.linked(args.tier, names)
    crews = [(Workers(count, kernels["run"]), measure.Probe(count)) for count in sorted({1, machine.cores()})]
    for name in types:
        matrix = Matrix(data, name, args.columns, kernels)
        print(f"{name:7s}", "; ".join(compare(matrix, *crew, data) for crew in crews), flush=True)


if __name__ == "__main__":
    main()
