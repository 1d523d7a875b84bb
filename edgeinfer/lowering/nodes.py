"""Buffers and nodes: operations before addresses are known, and how they come to be."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np

from edgeinfer import state
from edgeinfer.kvcache import KVCache
from edgeinfer.lowering.outputs import early
from edgeinfer.plan import Op, Plan
from edgeinfer.rope import Rope
from edgeinfer.simd_kernels import layout, record

# Weights a worker claims at a time when there is one token: half its share, as a core may be taken away for a while;
# but no more than CHUNK_BYTES, and all of it where half is not worth the start of as many streams as `dot` reads.
# Whole turns of those streams, as what is left over takes a turn of its own.
CHUNK_BYTES, LEAST_CHUNK_BYTES, CHUNKS, STREAMS = 512 * 1024, 32 * 1024, 2, 8


@dataclasses.dataclass
class Buffer:
    """Rows of a value: `stride` bytes each.  A view begins `offset` bytes into the rows of `base`."""

    stride: int
    last: int = -1  # the last node that uses it
    slot: int = -1
    base: Buffer | None = None
    offset: int = 0
    logits: bool = False  # written to where the caller of the step wants them
    tiled: bool = False  # rows of a tile lie interwoven: where a row begins follows from the tile, not from the stride

    @property
    def root(self) -> Buffer:
        return self.base.root if self.base else self

    @property
    def start(self) -> int:
        """Bytes from the beginning of the root's rows."""
        return self.offset + (self.base.start if self.base else 0)


@dataclasses.dataclass
class Node:
    """One operation before addresses are known: `reads` and `writes` say whose address goes into a field."""

    kernel: str
    record: record.Record
    fields: dict[str, int | float]
    reads: dict[str, Buffer]
    writes: dict[str, Buffer]
    rows: str  # the count of rows: "tokens" or "outputs"
    alone: bool  # does each row on its own, on the worker whose share it is in
    helpers: dict[str, str] = dataclasses.field(default_factory=dict)  # field -> kernel whose address goes there
    counter: bool = False
    wait: bool = False  # the workers wait for each other after it
    chain: int = 0  # nodes from here on that do each row on its own

    @property
    def parts(self) -> int:
        """Of its sums for one row, which a worker makes at a time and others can make again (simd_kernels/parts.py);
        -1 where workers claim something else, 0 where they share out rows."""
        if self.record is record.LINEAR:
            return parts(int(self.fields["rows"]), int(self.fields["chunk"]))
        return -1 if self.counter else 0


def parts(rows: int, chunk: int) -> int:
    """Chunks of so many rows."""
    return -(-rows // chunk)


def keys_at(op: Op) -> int:
    """Which input of an op that caches is K, before V."""
    return 0 if op.kind == "store" else 1


class Boards:
    """Memory where it is noted what has been done of operations (simd_kernels/parts.py)."""

    def __init__(self) -> None:
        self._free, self._last = 0, 0
        self._kept: list[np.ndarray] = []

    def of(self, parts: int) -> dict[str, int]:
        """The fields of an operation's record, on cache lines of its own."""
        size = layout.up(8 * max(parts, 1), 64)
        if self._free + size > self._last:
            self._kept.append(memory := layout.aligned(max(size, 1 << 16)))
            self._free, self._last = memory.ctypes.data, memory.ctypes.data + len(memory)
        self._free += size
        return {"board": self._free - size, "parts": parts}


class Nodes:
    """The nodes so far, and where the values of ops lie."""

    def __init__(self, plan: Plan, cache: KVCache, threads: int, texts: KVCache | None = None) -> None:
        """`texts` has what the plan's reader keeps."""
        self.plan, self.cache, self.threads, self.texts = plan, cache, threads, texts
        self.ops = early(plan.ops)
        self.readers = Counter(x.id for op in self.ops for x in op.ins)
        self.linears: dict[int, list[Op]] = defaultdict(list)  # by the value they read
        for op in self.ops:
            if op.kind == "linear":
                self.linears[op.ins[0].id].append(op)
        caching = [op for op in self.ops if op.kind in ("attend", "store") and op.caches]
        self.attended = {op.ins[keys_at(op) + 1].id for op in caching}
        self.nodes: list[Node] = []
        self.values: dict[int, Buffer] = {}
        self.quantised: dict[tuple[int, bool], Buffer] = {}
        self.states, _ = state.places(plan.ops)
        self.cached: dict[int, Buffer] = {}  # what is written to a layer's KV pool
        self.ropes: dict[Rope, str] = {}
        self.keep: list[np.ndarray] = []
        self.rows = "tokens"

    def value(self, op: Op, index: int) -> Buffer:
        return self.values[op.ins[index].id]

    def quantise(self, op: Op) -> Buffer:
        """The 8-bit form of a linear layer's input, made once for all that read it so.  Where others read it in the
        other form that is made too, so that no wait is needed between them."""
        x = op.ins[0]
        for reader in self.linears[x.id]:
            form = x.id, self.fine(reader)
            if form not in self.quantised and self.plan.tensors[reader.weights[0]].type.name not in layout.FLOATS:
                self.quantised[form] = self.quantised_part(reader, self.value(op, 0), x.width)
        return self.quantised[x.id, self.fine(op)]

    def quantised_part(self, op: Op, x: Buffer, width: int) -> Buffer:
        fine = self.fine(op)
        out = Buffer(layout.activation_bytes(width, fine), tiled=True)
        self.append(f"quantise{'.fine' * fine}", record.QUANTISE, {"width": width, "groups": 1}, {"x": x}, out)
        return out

    def fine(self, op: Op) -> bool:
        """Whether the op takes its activations finely: where much of the error of logits comes from and few products
        are.  That is behind the last attention, and in making attention's values."""
        return self.rows == "outputs" or op.out.id in self.attended

    def in_place(self, op: Op, kernel: str, form: record.Record, fields: Mapping[str, int | float]) -> None:
        """A node that does number by number; it overwrites an input that nothing else reads."""
        reads = dict(zip("xy", (self.value(op, i) for i in range(len(op.ins))), strict=False))
        own = [x for value, x in zip(op.ins, reads.values(), strict=True) if self.readers[value.id] == 1 and not x.base]
        out = self.values[op.out.id] = own[0] if own else self.fresh(op)
        self.append(kernel, form, {"width": op.out.width, **fields}, reads, out)

    def fresh(self, op: Op) -> Buffer:
        """A new place for the op's value."""
        out = self.values[op.out.id] = Buffer(layout.up(4 * op.out.width, 64))
        return out

    def emit(
        self,
        op: Op,
        kernel: str,
        form: record.Record,
        fields: Mapping[str, int | float],
        reads: dict[str, Buffer],
        helpers: Mapping[str, str] | None = None,
        alone: bool = True,
    ) -> None:
        """A node whose output is the op's value."""
        self.append(kernel, form, fields, reads, self.fresh(op), helpers, alone)

    def append(
        self,
        kernel: str,
        form: record.Record,
        fields: Mapping[str, int | float],
        reads: dict[str, Buffer],
        out: Buffer,
        helpers: Mapping[str, str] | None = None,
        alone: bool = True,
    ) -> None:
        counter = "counter" in form.names
        self.nodes.append(
            Node(kernel, form, dict(fields), reads, {"out": out}, self.rows, alone, dict(helpers or {}), counter)
        )

    def address(self, array: np.ndarray) -> int:
        self.keep.append(array)
        return array.ctypes.data

    def floats(self, name: str) -> int:
        """Address of a vector of weights as float32, whatever its type in the file."""
        return self.address(np.ascontiguousarray(self.plan.tensors[name].float32()))

    def chunk(self, rows: int, row_bytes: int) -> int:
        """Rows of weights a worker claims at a time: equal parts of its share."""
        share = -(-rows // self.threads)
        size = share * row_bytes
        count = max(min(CHUNKS, size // LEAST_CHUNK_BYTES), -(-size // CHUNK_BYTES), 1)
        rows = -(-share // count)
        return rows - rows % STREAMS if rows > STREAMS else rows
