"""From plan to operation records: which kernel runs each op, where its values live, and where the workers wait for each other.

What the kernels allow is fused here: q, k and v (or gate and up) read one quantised input and run without a barrier between them, and
operations that do each row on its own follow each other on the same worker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from edgeinfer import runnable
from edgeinfer.errors import UnsupportedError
from edgeinfer.kvcache import KVCache
from edgeinfer.plan import Op, Plan
from edgeinfer.rope import Rope
from edgeinfer.simd_kernels import layout, record

CHUNK_BYTES = 32 * 1024  # weights a worker claims at a time when there is one token


@dataclasses.dataclass
class Buffer:
    """Rows of a value: `stride` bytes each.  A view begins `offset` bytes into the rows of `base`."""

    stride: int
    last: int = -1  # the last node that uses it
    slot: int = -1
    base: Buffer | None = None
    offset: int = 0
    logits: bool = False  # written to where the caller of the step wants them

    @property
    def root(self) -> Buffer:
        return self.base.root if self.base else self


@dataclasses.dataclass
class Node:
    """One operation before addresses are known: `buffers` maps a field to the buffer whose address goes there."""

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


@dataclasses.dataclass(frozen=True)
class Lowered:
    """Nodes in order, the strides of the memory slots their buffers share, and arrays that must outlive the records."""

    nodes: list[Node]
    slots: list[int]
    ropes: dict[Rope, str]
    keep: list[np.ndarray]


class Lowering:
    """Turns ops into nodes, one method for each op kind."""

    def __init__(self, plan: Plan, cache: KVCache, threads: int) -> None:
        self.plan, self.cache, self.threads = plan, cache, threads
        self.nodes: list[Node] = []
        self.values: dict[int, Buffer] = {}
        self.quantised: dict[int, Buffer] = {}
        self.cached: dict[int, Buffer] = {}  # what is written to a layer's KV pool
        self.ropes: dict[Rope, str] = {}
        self.keep: list[np.ndarray] = []
        self.rows = "tokens"

    def run(self) -> Lowered:
        runnable.check(self.plan)
        for op in self.plan.ops:
            getattr(self, op.kind)(op)
        final = self.values[self.plan.ops[-1].out.id]
        final.root.logits = True
        slots = place(self.nodes)
        mark_waits(self.nodes)
        mark_chains(self.nodes)
        return Lowered(self.nodes, slots, self.ropes, self.keep)

    # one method for each op kind

    def embed(self, op: Op) -> None:
        tensor = self.plan.tensors[op.weights[0]]
        floating = tensor.type.name in layout.FLOATS
        fields = {
            "table": self.address(tensor.data),
            "row_bytes": tensor.nbytes // tensor.shape[0],
            "cols": tensor.shape[1],
            "group": layout.group(tensor.type.name),
            "scale_f32": op.attrs["scale"],
        }
        kernel, helpers = f"embed.{'float' if floating else 'quantised'}", {"unpack": f"unpack.{tensor.type.name}"}
        self.emit(op, kernel, record.EMBED, fields, {}, helpers, alone=False)  # as it uses its worker's scratch

    def norm(self, op: Op) -> None:
        size = op.attrs["size"]
        fields = {"weight": self.floats(op.weights[0]), "size": size, "groups": op.out.width // size, "eps_f32": op.attrs["eps"]}
        self.emit(op, "norm", record.NORM, fields, {"x": self.value(op, 0)})

    def linear(self, op: Op) -> None:
        tensor = self.plan.tensors[op.weights[0]]
        name = tensor.type.name
        floating = name in layout.FLOATS
        row_bytes = tensor.nbytes // tensor.shape[0]
        x = self.value(op, 0) if floating else self.quantise(op, 0)
        fields = {
            "w": self.address(tensor.data),
            "row_bytes": row_bytes,
            "rows": tensor.shape[0],
            "cols": tensor.shape[1],
            "bias": self.floats(op.weights[1]) if len(op.weights) > 1 else 0,
            "chunk": max(1, min(CHUNK_BYTES // row_bytes, -(-tensor.shape[0] // self.threads))),
            "block": tensor.type.block,
            "block_bytes": tensor.type.bytes,
            "group": layout.group(name),
        }
        helpers = {"dot": f"dot.{name}", "unpack": f"unpack.{name}", "transpose": "transpose", "tile": layout.tile_name(name)}
        kernel = f"linear.{'float' if floating else 'quantised'}"
        self.emit(op, kernel, record.LINEAR, fields, {"x": x}, helpers, alone=False)

    def split(self, op: Op) -> None:
        whole = self.value(op, 0)
        self.values[op.out.id] = Buffer(whole.stride, base=whole, offset=4 * op.attrs["start"])

    def rope(self, op: Op) -> None:
        rope, head_dim = op.attrs["rope"], op.attrs["head_dim"]
        table = self.ropes.setdefault(rope, f"rope{len(self.ropes)}")
        fields = {"heads": op.out.width // head_dim, "head_dim": head_dim, "pairs": len(rope.frequencies), "table": 0}
        self.emit(op, f"rope.{rope.pairs}", record.ROPE, fields, {"x": self.value(op, 0)}, {"table": table})

    def attend(self, op: Op) -> None:
        a, kv = op.attrs, self.cache.kv_type
        for name in ("key_dim", "value_dim"):
            if a[name] > layout.HEAD_ROOM:
                raise UnsupportedError(f"attention heads of {a[name]} dims; the kernels have room for {layout.HEAD_ROOM}")
        head_bytes, value_at = layout.head_layout(kv, a["key_dim"], a["value_dim"])
        fields = {
            "tables": 0,
            "pool": self.cache.pools[a["layer"]].ctypes.data,
            "block_bytes": head_bytes * a["kv_heads"],
            "head_bytes": head_bytes,
            "value_at": value_at,
            **{name: a[name] for name in ("kv_heads", "key_dim", "value_dim")},
        }
        pool = self.cached.setdefault(a["layer"], Buffer(0))
        helpers = {"tables": f"tables{a['window']}"}
        k, v = self.value(op, 1), self.value(op, 2)
        self.nodes.append(Node(f"store.{kv}", record.STORE, dict(fields), {"k": k, "v": v}, {"": pool}, self.rows, True, dict(helpers)))
        fields.update(group=a["heads"] // a["kv_heads"], window=a["window"], scale_f32=a["scale"])
        self.emit(op, f"attend.{kv}", record.ATTEND, fields, {"q": self.value(op, 0), "": pool}, helpers, alone=False)

    def gated(self, op: Op) -> None:
        self.elementwise(op, f"gated.{op.attrs['act']}")

    def add(self, op: Op) -> None:
        self.elementwise(op, "add")

    def elementwise(self, op: Op, kernel: str) -> None:
        self.emit(op, kernel, record.ELEMENTWISE, {"width": op.out.width}, {"x": self.value(op, 0), "y": self.value(op, 1)})

    def outputs(self, op: Op) -> None:
        self.rows = "outputs"
        self.emit(op, "outputs", record.OUTPUTS, {"width": op.out.width}, {"x": self.value(op, 0)}, alone=False)

    def softcap(self, op: Op) -> None:
        fields = {"width": op.out.width, "cap_f32": op.attrs["cap"]}
        x = self.value(op, 0)
        self.values[op.out.id] = x  # number by number, so in place
        self.nodes.append(Node("softcap", record.SOFTCAP, fields, {"x": x}, {"out": x}, self.rows, True))

    # how a node comes to be

    def value(self, op: Op, index: int) -> Buffer:
        return self.values[op.ins[index].id]

    def quantise(self, op: Op, index: int) -> Buffer:
        """The 8-bit form of an input, made once for all that read it."""
        source, width = self.value(op, index), op.ins[index].width
        if op.ins[index].id not in self.quantised:
            out = self.quantised[op.ins[index].id] = Buffer(layout.activation_bytes(width))
            self.nodes.append(Node("quantise", record.QUANTISE, {"width": width}, {"x": source}, {"out": out}, self.rows, True))
        return self.quantised[op.ins[index].id]

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
        out = self.values[op.out.id] = Buffer(layout.up(4 * op.out.width, 64))
        counter = "counter" in form.names
        self.nodes.append(Node(kernel, form, dict(fields), reads, {"out": out}, self.rows, alone, dict(helpers or {}), counter))

    def address(self, array: np.ndarray) -> int:
        self.keep.append(array)
        return array.ctypes.data

    def floats(self, name: str) -> int:
        """Address of a vector of weights as float32, whatever its type in the file."""
        return self.address(np.ascontiguousarray(self.plan.tensors[name].float32()))


def place(nodes: list[Node]) -> list[int]:
    """Give every buffer a slot of memory; slots are used again when their buffer is done.  Returns the slots' strides."""
    for number, node in enumerate(nodes):
        for buffer in (*node.reads.values(), *node.writes.values()):
            buffer.root.last = number
    slots: list[int] = []
    free: list[int] = []
    for number, node in enumerate(nodes):
        for buffer in (b.root for b in node.writes.values()):
            if buffer.slot < 0 and buffer.stride and not buffer.logits:
                fitting = [slot for slot in free if slots[slot] == buffer.stride]
                buffer.slot = fitting[0] if fitting else len(slots)
                if fitting:
                    free.remove(buffer.slot)
                else:
                    slots.append(buffer.stride)
        done = {b.root.slot for b in (*node.reads.values(), *node.writes.values()) if b.root.last == number}
        free.extend(sorted(done - {-1}))
    return slots


def mark_waits(nodes: list[Node]) -> None:
    """Mark the node before each one that could meet memory another worker has used since the last wait.

    Work on rows of one's own meets nobody, as long as the rows are counted alike."""
    touched: dict[tuple[str, int], tuple[str, bool]] = {}  # place -> (how rows are shared out, written)
    for before, node in zip([None, *nodes], nodes, strict=False):
        mode = node.rows if node.alone else "any"
        uses = [(identity(b), False) for b in node.reads.values()] + [(identity(b), True) for b in node.writes.values()]
        clash = any(
            (written or touched[place][1]) and not (mode == touched[place][0] != "any") for place, written in uses if place in touched
        )
        if clash and before is not None:
            before.wait = True
            touched.clear()
        for place, written in uses:
            old_mode, old_written = touched.get(place, (mode, False))
            touched[place] = (mode if old_mode == mode else "any", written or old_written)
    nodes[-1].wait = True


def mark_chains(nodes: list[Node]) -> None:
    """Mark where runs of nodes begin that do each row on its own and need no wait between them."""
    first: Node | None = None
    for node in nodes:
        if not node.alone or (first and first.rows != node.rows):
            first = None
        if node.alone:
            first = first or node
            first.chain += 1
            if node.wait:
                first = None


def identity(buffer: Buffer) -> tuple[str, int]:
    root = buffer.root
    if root.logits:
        return ("logits", 0)
    return ("slot", root.slot) if root.slot >= 0 else ("pool", id(root))


def resolve(
    lowered: Lowered, kernels: Mapping[str, int], address: Callable[[Buffer], int], places: Mapping[str, int], counts: Mapping[str, int],
    counter: Callable[[], int],
) -> np.ndarray:
    """The records, int64[nodes, OP_FIELDS]: `places` are addresses of tables by name, `counts` those of the row counts."""
    out = np.zeros((len(lowered.nodes), record.OP_FIELDS), np.int64)
    for row, node in zip(out, lowered.nodes, strict=True):
        fields = dict(node.fields)
        for name, buffer in {**node.reads, **node.writes}.items():
            if name:
                fields[name], fields[f"{name}_stride"] = address(buffer), buffer.root.stride
        for name, helper in node.helpers.items():
            fields[name] = kernels[helper] if helper in kernels else places[helper]
        if node.counter:
            fields["counter"] = counter()
        numbers = node.record.write(kernel=kernels[node.kernel], wait=int(node.wait), chain=node.chain, count=counts[node.rows], **fields)
        row[: len(numbers)] = numbers
    return out
