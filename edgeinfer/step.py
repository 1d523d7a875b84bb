"""What changes from step to step: the numbers that kernels are told, in memory that stays where it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgeinfer.backend import Chunk, segments
from edgeinfer.kvcache import KVCache
from edgeinfer.plan import Plan
from edgeinfer.rope import Rope
from edgeinfer.simd_kernels import layout, record
from edgeinfer.simd_kernels.layout import kept_name, tables_name
from edgeinfer.simd_kernels.numbers import Numbers
from edgeinfer.state import States

STEP_FIELDS = {name: place for place, name in enumerate(record.STEP.names)}


class Step:
    """The record of a step and the numbers it points to."""

    def __init__(
        self, n_batch: int, n_seq: int, groups: list[tuple[int, int]], plan: Plan, texts: KVCache | None = None
    ) -> None:
        """`groups`: of the KV cache, by window and stride.  `texts`: of the sequences with the same numbers, that these
        answer."""
        self._record = Numbers(record.OP_FIELDS)
        names = ("ids", "instead", "positions", "segments", "picked", "text_ends", "text_tables")
        self._rows = {name: Numbers(n_batch) for name in names}
        self._texts = texts
        self._instead = {id: other for op in plan.ops for id, other in op.attrs.get("instead", ())}
        self._segmented = [op.attrs for op in plan.ops if op.kind == "segments"]
        self._spans, self._states = Numbers(2 * n_seq), Numbers(2 * n_seq)
        self._tables = {group: Numbers(n_batch) for group in groups}
        self._kept = {stride: Numbers(n_batch) for _, stride in groups if stride > 1}
        self.set(spans=self._spans.address, states=self._states.address)
        self.set(**{name: rows.address for name, rows in self._rows.items() if name in record.STEP.names})
        self.address = self._record.address

    def set(self, **numbers: int) -> None:
        for name, number in numbers.items():
            self._record.values[STEP_FIELDS[name]] = number

    def places(self) -> dict[str, int]:
        """Addresses of what is told of each row, by name: its id, its position, its block tables."""
        numbers = {name: rows.address for name, rows in self._rows.items()}
        numbers |= {kept_name(stride): rows.address for stride, rows in self._kept.items()}
        return numbers | {tables_name(group): rows.address for group, rows in self._tables.items()}

    def counts(self) -> dict[str, int]:
        """Addresses of the counts of rows."""
        return {name: self._record.address + 8 * STEP_FIELDS[name] for name in ("tokens", "outputs")}

    def fill(self, chunks: Sequence[Chunk], lengths: Sequence[int], cache: KVCache, states: States) -> None:
        row = outputs = 0
        for number, (chunk, length) in enumerate(zip(chunks, lengths, strict=True)):
            count = len(chunk.ids)
            stop = row + count
            self._rows["ids"].put(row, chunk.ids)
            if self._instead:
                self._rows["instead"].put(row, [self._instead.get(id, id) for id in chunk.ids])
            self._rows["positions"].put(row, range(length, length + count))
            for stride, kept in self._kept.items():
                kept.put(row, [behind // stride - 1 for behind in range(length + 1, length + count + 1)])
            for attrs in self._segmented:
                self._rows["segments"].put(row, segments(chunk.ids, attrs["separator"], attrs["count"]).tolist())
            if self._texts:
                self._rows["text_ends"].put(row, (self._texts.lengths[chunk.seq] - 1,) * count)
                self._rows["text_tables"].put(row, (self._texts.groups[0, 1].table(chunk.seq),) * count)
            self._rows["picked"].put(outputs, range(stop - chunk.outputs, stop))
            self._spans.put(2 * number, (row, count))
            self._states.put(2 * number, states.begin(chunk.seq, count))
            for group, rows in self._tables.items():
                rows.put(row, (cache.groups[group].table(chunk.seq),) * count)
            row, outputs = stop, outputs + chunk.outputs
        self.set(tokens=row, outputs=outputs, span_count=len(chunks))


class RopeTable:
    """Cosines and sines by position, f32[n_ctx][2][pairs], filled in as far as sequences have come."""

    def __init__(self, rope: Rope, n_ctx: int) -> None:
        self._rope = rope
        self._frequencies = np.array(rope.frequencies)
        size = 8 * len(rope.frequencies)
        self._memory = layout.aligned(max(size * n_ctx, 64))
        self._table = self._memory[: size * n_ctx].view(np.float32).reshape(n_ctx, 2, -1)
        self._filled = 0
        self.address = self._memory.ctypes.data

    def reach(self, positions: int) -> None:
        """Have the positions below this one."""
        if positions > self._filled:
            stop = min(layout.up(positions, 512), len(self._table))
            own = np.arange(self._filled, stop) // self._rope.stride * self._rope.stride
            angles = own[:, None] * self._frequencies
            self._table[self._filled : stop, 0] = np.cos(angles) * self._rope.scale
            self._table[self._filled : stop, 1] = np.sin(angles) * self._rope.scale
            self._filled = stop
