"""Records: rows of 64-bit numbers that Python writes and kernels read, one for each operation and one for the step.

Every operation's record begins with the kernel's address, whether the workers wait for each other after it, the
address of the count of rows it is to do, how many operations from here on do each row on its own, and where and in
how many parts it is noted what has been done of it (parts.py); what follows is the kernel's own.  Strides are in
bytes, sizes in numbers.
"""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeinfer.simd_kernels.emit import Emitter
    from edgeinfer.simd_kernels.values import Value

OP_FIELDS = 32
OP_BYTES = 8 * OP_FIELDS
HEAD = ("kernel", "wait", "count", "chain", "board", "parts")
NO_BOARD = {"board": 0, "parts": 0}  # for runs in which workers wait for each other


class Record:
    """The names of a record's fields, in order.  A name that ends in `_f32` is a float, kept as its bits."""

    def __init__(self, *names: str) -> None:
        self.names = names
        if len(names) > OP_FIELDS:
            raise ValueError("a record has too many fields")

    def read(self, e: Emitter, record: Value) -> SimpleNamespace:
        """All fields as machine values (unused ones cost nothing)."""
        values = {
            n: e.field_f32(record, i) if n.endswith("_f32") else e.field(record, i) for i, n in enumerate(self.names)
        }
        return SimpleNamespace(**values)

    def write(self, **values: int | float) -> list[int]:
        """The numbers of a record; every field must be given."""
        if set(values) != set(self.names):
            raise ValueError(f"fields {sorted(set(values) ^ set(self.names))} are missing or unknown")
        return [float_bits(values[n]) if n.endswith("_f32") else int(values[n]) for n in self.names]


def operation(*names: str) -> Record:
    """The record of an operation with these fields of its own."""
    return Record(*HEAD, *names)


def float_bits(number: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", number))[0])


# What changes from step to step.  `ids`, `positions` i64[tokens]; `spans` i64[spans][2]: first row and rows of each
# sequence's chunk; `states` i64[spans][2]: where the sequence's states are, and where those before its last token
# are copied to, or 0; `picked` i64[outputs]: the rows that give logits; `scratch`: memory of each worker,
# `scratch_bytes` apart; `few`: most rows that are multiplied without panels; `uniform`: 1 where a single row too goes
# as a few do; `parts`: what attention notes of a row of a head and a chunk, `chunk_count` for each; `done`: i64[rows of
# heads], zero, counts workers that have done theirs; `sync`: where workers meet (layout.py), 0 in tests of single
# kernels; `results`: memory of each worker, `results_bytes` apart, for parts that count only when they are whole.
STEP = Record(
    *("tokens", "outputs", "ids", "positions", "spans", "states", "span_count", "picked", "scratch", "scratch_bytes"),
    *("few", "uniform", "parts", "chunk_count", "done", "sync", "results", "results_bytes"),
)

XY = ("x", "x_stride", "out", "out_stride")
# weight_group: bytes from a group's weights to the next one's
NORM = operation(*XY, "weight", "bias", "weight_group", "size", "groups", "eps_f32")
SOFTMAX = operation(*XY, "size", "groups")
SINKHORN = operation(*XY, "side", "turns", "eps_f32")
ELEMENTWISE = operation(*XY, "y", "y_stride", "width")
UNARY = operation(*XY, "width", "a_f32", "b_f32", "c_f32", "d_f32")  # constants of the formula
TEMPER = operation(*XY, "width", "table")  # table f32[positions]
GROUPED = operation(*XY, "y", "y_stride", "size", "groups")  # y f32[groups]
# Of each group `width` numbers; groups lie so many bytes apart.
COPY = operation(*XY, "width", "groups", "x_group", "out_group")
OUTPUTS = operation(*XY, "width")
POOL = operation(*XY, "width", "most", "from_end")  # at most so many of a chunk's rows, its first or (1) its last
QUANTISE = operation(*XY, "width", "groups")  # groups of `width` numbers side by side, quantised on their own
# table f32[positions][2][pairs]: cosines, then sines
ROPE = operation(*XY, "heads", "head_dim", "start", "pairs", "table")
ROTATE = operation(*XY, "width", "block", "factor_f32")  # factor: block ** -0.5

# x: quantised or f32 rows; w: [rows][row_bytes]; bias: f32[rows] or 0; dot, few, panel, tile: kernels;
# counter: i64, zero when a step begins; chunk: rows claimed at a time where there are no panels; block, block_bytes,
# group: of the tensor type.
LINEAR = operation(
    *XY,
    *("w", "row_bytes", "rows", "cols", "bias", "dot", "few", "panel", "tile"),
    *("counter", "chunk", "block", "block_bytes", "group"),
)
# The output layer where only the largest logits are wanted (select.py).  scores f32[rows], tops f32[groups]; source:
# f32[source_count], wanted: how many of these reach the bound; ids i64, values f32: what is found; found,
# source_count, rescored, unsound: addresses of counts.
SCAN = operation("x", "w", "row_bytes", "rows", "cols", "bias", "dot", "counter", "chunk", "scores", "tops")
PICK = operation(
    *("scores", "tops", "groups", "rows", "source", "source_count", "wanted", "counter", "ids", "values", "found"),
    *("keep", "rescored", "unsound", "x", "w", "row_bytes", "cols", "bias", "dot"),
)
# The view of the output matrix (screen.py): first: row; group: 0 for floats; directions f32[DIRECTIONS][cols]; chunk:
# rows claimed at a time.
VIEW = operation(
    *("w", "row_bytes", "first", "rows", "cols", "group", "unpack", "view", "panel_bytes", "directions"),
    *("counter", "chunk"),
)
BOUNDS = operation("x", "view", "panel_bytes", "rows", "cols", "bias", "counter", "chunk", "scores", "tops")
WIDEN = operation("x", "out", "cols", "directions")
# numbers: i64[tokens], the address of the rows' numbers in the table.
EMBED = operation("out", "out_stride", "numbers", "table", "row_bytes", "cols", "unpack", "group", "scale_f32")

# What measures the machine (probe.py): of each worker its own `size` bytes; out: 128 bytes for each.
PROBE_READ = operation("address", "size", "out")
PROBE_DOTS = operation("turns", "out")

# What is done at SIGBUS (bus_error.py).  maps, maps_end: `formats.mapped.MAPS`; mmap, sigaction, throw: the
# C library's, the last its `raise`; before: the struct sigaction of who handled it before.
GUARD = Record("maps", "maps_end", "mmap", "sigaction", "throw", "before")

# tables: i64[tokens], the address of each row's block table (i32 block numbers); pool: of the layer, head_bytes for
# each KV head, whose values begin at value_at; key_bytes, value_bytes: of a block; group: heads that share a KV head;
# window: 0 for none.
CACHE = (
    *("tables", "pool", "head_bytes", "value_at", "key_bytes", "value_bytes"),
    *("kv_heads", "key_dim", "value_dim"),
)
# stride: of so many positions the last one's are kept, at the number of these
STORE = operation("k", "k_stride", "v", "v_stride", *CACHE, "stride")
# positions: i64[tokens], where rows stand; ahead: positions after its own that a row sees, as far as the step goes;
# slopes, sinks: f32[heads]; chunk: positions see back to its last multiple only, 0 for all; cap_f32: of the scores.
# With biases these stand where slopes would: f32[heads][BIASES], in units of log(2), of keys from behind to ahead.
# seen: f32 rows, whole numbers whose bits say which of 16 positions count, seen_head bytes from those of a KV head to
# the next one's.
ATTEND = operation(
    *("q", "q_stride", "out", "out_stride"),
    *CACHE,
    *("group", "window", "ahead", "counter", "scale_f32", "slopes", "sinks", "chunk", "cap_f32"),
    *("seen", "seen_stride", "seen_head", "positions"),
)
# set_bytes: from the scores of a head to the next one's, where heads are told apart
RATE = operation(
    *("q", "q_stride", "w", "w_stride", "out", "out_stride"),
    *(*CACHE, "heads", "set_bytes", "counter", "positions"),
)
# x: `sets` of scores, `width` each; most: of blocks of so many positions, the last `local` of which are chosen anyway
CHOOSE = operation(*XY, "most", "sets", "width", "block", "local", "positions")

# Mixture of experts.  A choice is f32[2 * used]: numbers of the chosen experts, then their weights.
ROUTE = operation(*XY, "experts", "used", "bias", "groups", "groups_used", "normalise", "factor_f32")
ASSIGN = operation(*XY, "experts", "used", "table", "normalise", "factor_f32")  # table i32[ids][used]
MIX = operation(*XY, "y", "y_stride", "size", "groups", "sums")
# x: rows quantised one by one (or f32), x_part bytes apart for each chosen expert; bias: f32[experts][rows] or 0; dot,
# few: kernels.
EXPERT_LINEAR = operation(
    *(*XY, "x_part", "y", "y_stride", "w", "row_bytes", "expert_bytes"),
    *("rows", "cols", "bias", "dot", "few", "used", "experts", "counter", "chunk"),
)

# Recurrences.  state: where in a sequence's slot the op's is, `depth` numbers for each column of `units` of `size`
# columns; chunk: blocks of columns claimed at a time.
STATE = ("state", "counter", "chunk", "units", "size", "depth")
SHIFT = operation(*XY, *STATE)
CONV = operation(*XY, *STATE, "w", "bias")  # w f32[blocks][depth + 1][16], bias f32[blocks][16]
# places f32[blocks][span][16], one behind the other for either half of x where pools overlap
CONDENSE = operation(*XY, "gate", "gate_stride", *STATE, "places", "span")
# share: units that share a row of b and c; a: f32[units] or f32[units][depth], d: f32[units]; where units have several
# heads a: f32[blocks][depth][16], d: f32[blocks][16].
SSM = operation(*XY, "dt", "dt_stride", "b", "b_stride", "c", "c_stride", *STATE, "a", "d", "share")
WKV = operation(*(f"{name}{end}" for name in (*"rkvw", "out") for end in ("", "_stride")), *STATE, "bonus")
DELTA = operation(*(f"{name}{end}" for name in (*"qkvwab", "out") for end in ("", "_stride")), *STATE)
