"""From plan to operation records: which kernel runs each op, where its values live, and where the workers wait for each other.

What the kernels allow is fused here: q, k and v (or gate and up) read one quantised input and run without a barrier between them, and
operations that do each row on its own follow each other on the same worker.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from edgeinfer import runnable
from edgeinfer.errors import UnsupportedError
from edgeinfer.formats.gguf import Tensor
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
    tiled: bool = False  # rows of a tile lie interwoven: where a row begins follows from the tile, not from the stride

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
        self.readers = Counter(x.id for op in plan.ops for x in op.ins)
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
        self.table(op, "ids", op.attrs["scale"])

    def positions(self, op: Op) -> None:
        self.table(op, "positions", 1.0)

    def table(self, op: Op, numbers: str, scale: float) -> None:
        """Rows of a table by the numbers the step has for its tokens."""
        tensor = self.plan.tensors[op.weights[0]]
        floating = tensor.type.name in layout.FLOATS
        fields = {
            "numbers": 0,
            "table": self.address(tensor.data),
            "row_bytes": tensor.nbytes // tensor.shape[0],
            "cols": tensor.shape[1],
            "group": layout.group(tensor.type.name),
            "scale_f32": scale,
        }
        helpers = {"unpack": f"unpack.{tensor.type.name}", "numbers": numbers}
        kernel = f"embed.{'float' if floating else 'quantised'}"
        self.emit(op, kernel, record.EMBED, fields, {}, helpers, alone=False)  # as it uses its worker's scratch

    def norm(self, op: Op) -> None:
        """One vector of weights for all groups or one for each; where there is none, ones and zeros."""
        size, width = op.attrs["size"], op.out.width
        vectors = [self.plan.tensors[name].float32().reshape(-1) for name in op.weights]
        weight = vectors[0] if vectors else np.ones(size, np.float32)
        bias = vectors[1] if len(vectors) > 1 else np.zeros_like(weight)
        fields = {
            "weight": self.address(np.ascontiguousarray(weight)),
            "bias": self.address(np.ascontiguousarray(bias)),
            "weight_group": 4 * size if len(weight) > size else 0,
            "size": size,
            "groups": width // size,
            "eps_f32": op.attrs["eps"],
        }
        self.emit(op, op.kind, record.NORM, fields, {"x": self.value(op, 0)})

    layer_norm = l2_norm = norm

    def linear(self, op: Op) -> None:
        tensor = self.plan.tensors[op.weights[0]]
        x = self.value(op, 0) if tensor.type.name in layout.FLOATS else self.quantise(op, 0)
        out = self.fresh(op)
        bias = self.floats(op.weights[1]) if len(op.weights) > 1 else 0
        self.matrix(tensor, self.address(tensor.data), tensor.shape[-1], op.out.width, x, out, bias)

    def head_linear(self, op: Op) -> None:
        """A linear layer for each head, from its part of the row to its part."""
        tensor = self.plan.tensors[op.weights[0]]
        heads, width, part = tensor.shape
        source, out = self.value(op, 0), self.fresh(op)
        for head in range(heads):
            x = Buffer(source.stride, base=source, offset=4 * part * head)
            if tensor.type.name not in layout.FLOATS:
                x = self.quantised_part(x, part)
            place = Buffer(out.stride, base=out, offset=4 * width * head)
            self.matrix(tensor, self.address(tensor.data[head]), part, width, x, place, 0)

    def matrix(self, tensor: Tensor, address: int, cols: int, rows: int, x: Buffer, out: Buffer, bias: int) -> None:
        """out = x times the matrix [rows][cols] at `address`, of the tensor's type."""
        name, kind = tensor.type.name, "float" if tensor.type.name in layout.FLOATS else "quantised"
        row_bytes = tensor.type.row_bytes(cols)
        fields = {
            "w": address,
            "row_bytes": row_bytes,
            "rows": rows,
            "cols": cols,
            "bias": bias,
            "chunk": self.chunk(rows, row_bytes),
            "block": tensor.type.block,
            "block_bytes": tensor.type.bytes,
            "group": layout.group(name),
        }
        helpers = {"dot": f"dot.{name}", "unpack": f"unpack.{name}", "transpose": "transpose", "tile": layout.tile_name(name)}
        self.append(f"linear.{kind}", record.LINEAR, fields, {"x": x}, out, helpers, alone=False)

    def chunk(self, rows: int, row_bytes: int) -> int:
        """Rows of weights a worker claims at a time."""
        return max(1, min(CHUNK_BYTES // row_bytes, -(-rows // self.threads)))

    # moving numbers

    def split(self, op: Op) -> None:
        whole, size = self.value(op, 0), op.attrs["size"]
        start = Buffer(whole.stride, base=whole, offset=4 * op.attrs["start"])
        groups = op.ins[0].width // size
        if groups == 1:
            self.values[op.out.id] = start
        else:
            width = op.out.width // groups
            self.copy(start, self.fresh(op), width, groups, size, width)

    def join(self, op: Op) -> None:
        out, groups, offset = self.fresh(op), op.attrs["groups"], 0
        for index, x in enumerate(op.ins):
            width = x.width // groups
            self.copy(self.value(op, index), Buffer(out.stride, base=out, offset=4 * offset), width, groups, width, op.out.width // groups)
            offset += width

    def repeat(self, op: Op) -> None:
        out, size, times = self.fresh(op), op.attrs["size"], op.attrs["times"]
        for number in range(times):
            place = Buffer(out.stride, base=out, offset=4 * size * number)
            self.copy(self.value(op, 0), place, size, op.ins[0].width // size, size, size * times)

    def copy(self, x: Buffer, out: Buffer, width: int, groups: int, x_size: int, out_size: int) -> None:
        fields = {"width": width, "groups": groups, "x_group": 4 * x_size, "out_group": 4 * out_size}
        self.append("copy", record.COPY, fields, {"x": x}, out)

    # attention

    def rope(self, op: Op) -> None:
        rope, head_dim = op.attrs["rope"], op.attrs["head_dim"]
        table = self.ropes.setdefault(rope, f"rope{len(self.ropes)}")
        pairs, start = len(rope.frequencies), op.attrs["start"]
        fields = {"heads": op.out.width // head_dim, "head_dim": head_dim, "start": start, "pairs": pairs, "table": 0}
        self.emit(op, f"rope.{rope.pairs}", record.ROPE, fields, {"x": self.value(op, 0)}, {"table": table})

    def temper(self, op: Op) -> None:
        a = op.attrs
        floors = (np.arange(self.cache.n_ctx) + a["offset"]) // a["floor"]
        table = (1 + a["scale"] * np.log1p(floors)).astype(np.float32)
        self.in_place(op, "temper", record.TEMPER, {"table": self.address(table)})

    def attend(self, op: Op) -> None:
        """Keys and values, if it has its own, go to the cache first."""
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
        helpers = {"tables": f"tables{self.cache.windows[a['layer']]}"}
        if len(op.ins) == 3:
            reads = {"k": self.value(op, 1), "v": self.value(op, 2)}
            self.nodes.append(Node(f"store.{kv}", record.STORE, dict(fields), reads, {"": pool}, self.rows, True, dict(helpers)))
        extras = {"cap": a["cap"], "slopes": a["slopes"], "sinks": op.weights, "chunk": a["chunk"]}
        fields.update(group=a["heads"] // a["kv_heads"], window=a["window"], chunk=a["chunk"], scale_f32=a["scale"], cap_f32=a["cap"])
        fields["slopes"] = self.address(np.array(a["slopes"], np.float32)) if a["slopes"] else 0
        fields["sinks"] = self.floats(op.weights[0]) if op.weights else 0
        name = layout.attend_name(kv, [extra for extra, given in extras.items() if given])
        self.emit(op, name, record.ATTEND, fields, {"q": self.value(op, 0), "": pool}, helpers, alone=False)

    # arithmetic

    def gated(self, op: Op) -> None:
        self.elementwise(op, f"gated.{op.attrs['act']}")

    def add(self, op: Op) -> None:
        self.elementwise(op, "add")

    def mul(self, op: Op) -> None:
        groups = op.ins[1].width
        if groups == op.out.width:
            self.elementwise(op, "mul")
        else:
            fields = {"size": op.out.width // groups, "groups": groups}
            self.emit(op, "mul.groups", record.GROUPED, fields, {"x": self.value(op, 0), "y": self.value(op, 1)})

    def elementwise(self, op: Op, kernel: str) -> None:
        self.emit(op, kernel, record.ELEMENTWISE, {"width": op.out.width}, {"x": self.value(op, 0), "y": self.value(op, 1)})

    def plus(self, op: Op) -> None:
        self.vector(op, "add")

    def times(self, op: Op) -> None:
        tensor = self.plan.tensors[op.weights[0]].float32().reshape(-1)
        if len(tensor) == 1 < op.out.width:
            self.constant(op, "scale", float(tensor[0]))
        else:
            self.vector(op, "mul")

    def vector(self, op: Op, kernel: str) -> None:
        """Every row with one vector of weights."""
        fields = {"width": op.out.width, "y": self.floats(op.weights[0]), "y_stride": 0}
        self.emit(op, kernel, record.ELEMENTWISE, fields, {"x": self.value(op, 0)})

    def scale(self, op: Op) -> None:
        self.constant(op, "scale", op.attrs["factor"])

    def clamp(self, op: Op) -> None:
        self.constant(op, "clamp", op.attrs["limit"])

    def softcap(self, op: Op) -> None:
        self.constant(op, "softcap", op.attrs["cap"])

    def activate(self, op: Op) -> None:
        self.constant(op, f"activate.{op.attrs['act']}", *(op.attrs.get(name, 0.0) for name in ("alpha_p", "alpha_n", "beta", "eps")))

    def constant(self, op: Op, kernel: str, *constants: float) -> None:
        names = ("a_f32", "b_f32", "c_f32", "d_f32")
        self.in_place(op, kernel, record.UNARY, dict(zip(names, [*constants, 0.0, 0.0, 0.0], strict=False)))

    def outputs(self, op: Op) -> None:
        self.rows = "outputs"
        self.emit(op, "outputs", record.OUTPUTS, {"width": op.out.width}, {"x": self.value(op, 0)}, alone=False)

    # experts

    def route(self, op: Op) -> None:
        a, experts = op.attrs, op.ins[0].width
        bias = np.ascontiguousarray(self.plan.tensors[op.weights[0]].float32()) if op.weights else np.zeros(experts, np.float32)
        names = ("used", "groups", "groups_used")
        fields = {"experts": experts, "bias": self.address(bias), "normalise": int(a["normalise"]), "factor_f32": a["scale"]}
        kernel, reads = f"route.{a['gate']}", {"x": self.value(op, 0)}
        self.emit(op, kernel, record.ROUTE, {**fields, **{n: a[n] for n in names}}, reads, alone=False)  # uses scratch

    def expert_linear(self, op: Op) -> None:
        tensor, used = self.plan.tensors[op.weights[0]], op.attrs["used"]
        _, width, cols = tensor.shape
        parts = used if op.attrs["each"] else 1
        x, part = self.value(op, 0), 4 * cols
        if tensor.type.name not in layout.FLOATS:
            part = layout.activation_bytes(cols)
            out = Buffer(part * parts)
            self.append("quantise.rows", record.QUANTISE, {"width": cols, "groups": parts, "out_stride": part}, {"x": x}, out)
            x = out
        row_bytes = tensor.type.row_bytes(cols)
        fields = {
            "x_part": part if parts > 1 else 0,
            "w": self.address(tensor.data),
            "row_bytes": row_bytes,
            "expert_bytes": row_bytes * width,
            "rows": width,
            "cols": cols,
            "bias": self.floats(op.weights[1]) if len(op.weights) > 1 else 0,
            "used": used,
            "chunk": self.chunk(width, row_bytes),
        }
        reads = {"x": x, "y": self.value(op, 1)}
        self.emit(op, "expert_linear", record.EXPERT_LINEAR, fields, reads, {"dot": f"dot.{tensor.type.name}"}, alone=False)

    def mix(self, op: Op) -> None:
        parts = op.attrs["parts"]
        fields = {"size": op.ins[0].width // parts, "groups": parts, "sums": op.ins[1].width // parts}
        self.emit(op, "mix", record.MIX, fields, {"x": self.value(op, 0), "y": self.value(op, 1)})

    # how a node comes to be

    def value(self, op: Op, index: int) -> Buffer:
        return self.values[op.ins[index].id]

    def quantise(self, op: Op, index: int) -> Buffer:
        """The 8-bit form of an input, made once for all that read it."""
        number = op.ins[index].id
        if number not in self.quantised:
            self.quantised[number] = self.quantised_part(self.value(op, index), op.ins[index].width)
        return self.quantised[number]

    def quantised_part(self, x: Buffer, width: int) -> Buffer:
        out = Buffer(layout.activation_bytes(width), tiled=True)
        self.append("quantise", record.QUANTISE, {"width": width, "groups": 1}, {"x": x}, out)
        return out

    def in_place(self, op: Op, kernel: str, form: record.Record, fields: Mapping[str, int | float]) -> None:
        """A node that does number by number; it overwrites its input where nothing else reads that."""
        x = self.value(op, 0)
        alone = self.readers[op.ins[0].id] == 1 and x.base is None
        out = x if alone else self.fresh(op)
        self.values[op.out.id] = out
        self.append(kernel, form, {"width": op.out.width, **fields}, {"x": x}, out)

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
        self.nodes.append(Node(kernel, form, dict(fields), reads, {"out": out}, self.rows, alone, dict(helpers or {}), counter))

    def address(self, array: np.ndarray) -> int:
        self.keep.append(array)
        return array.ctypes.data

    def floats(self, name: str) -> int:
        """Address of a vector of weights as float32, whatever its type in the file."""
        return self.address(np.ascontiguousarray(self.plan.tensors[name].float32()))


def place(nodes: list[Node]) -> list[int]:
    """Give every buffer a slot of memory; slots are used again when their buffer is done.  Returns the slots' strides.

    Tiled buffers have slots of their own kind: in one used for both kinds, a worker's own rows would be others' as well."""
    for number, node in enumerate(nodes):
        for buffer in (*node.reads.values(), *node.writes.values()):
            buffer.root.last = number
    slots: list[tuple[int, bool]] = []
    free: list[int] = []
    for number, node in enumerate(nodes):
        for buffer in (b.root for b in node.writes.values()):
            if buffer.slot < 0 and buffer.stride and not buffer.logits:
                fitting = [slot for slot in free if slots[slot] == (buffer.stride, buffer.tiled)]
                buffer.slot = fitting[0] if fitting else len(slots)
                if fitting:
                    free.remove(buffer.slot)
                else:
                    slots.append((buffer.stride, buffer.tiled))
        done = {b.root.slot for b in (*node.reads.values(), *node.writes.values()) if b.root.last == number}
        free.extend(sorted(done - {-1}))
    return [stride for stride, _ in slots]


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
                fields[name] = address(buffer)
                fields.setdefault(f"{name}_stride", buffer.root.stride)
        for name, helper in node.helpers.items():
            fields[name] = kernels[helper] if helper in kernels else places[helper]
        if node.counter:
            fields["counter"] = counter()
        numbers = node.record.write(kernel=kernels[node.kernel], wait=int(node.wait), chain=node.chain, count=counts[node.rows], **fields)
        row[: len(numbers)] = numbers
    return out
