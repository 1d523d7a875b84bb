"""Rows of weights become columns of a panel (tile.py), as many rows at a time as a register has lanes.

Types for which it is worthwhile say what their words are (`Quant.groups`): the same word of all rows is a vector, so
that scales of all rows are decoded at once and nothing is written down on the way.  Rows of the others are unpacked one
by one, and transposed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.instructions import ROUND_BITS
from edgeinfer.simd_kernels.layout import DEPTH, MINIMUMS
from edgeinfer.simd_kernels.tile import panel_parts, transpose
from edgeinfer.simd_kernels.values import I8, I32, I64, Value, vec

if TYPE_CHECKING:
    from edgeinfer.simd_kernels.quants.quant import Quant


class Rows:
    """As many rows of weights as a register has lanes, `stride` bytes apart, from the same place of each on."""

    def __init__(self, e: Emitter, at: Value, stride: Value) -> None:
        self.e, self.lanes, self.stride = e, e.tier.lanes, stride
        self.fours = [at + stride * first for first in range(0, self.lanes, 4)]

    def words(self, offset: int) -> list[Value]:
        """Four words, i32[lanes] of all rows each, that begin `offset` bytes from there."""
        e, n = self.e, self.lanes
        square = [e.join(*(e.load(at + self.stride * i + offset, vec(I32, 4)) for at in self.fours)) for i in range(4)]

        def mixed(x: Value, y: Value, *places: int) -> Value:
            """Of every four lanes of both these."""
            return e.pick(x, [first + (p if p < 4 else n + p - 4) for first in range(0, n, 4) for p in places], y)

        halves = [[mixed(square[i], square[i + 1], *some) for i in (0, 2)] for some in ((0, 4, 1, 5), (2, 6, 3, 7))]
        return [mixed(first, after, *some) for first, after in halves for some in ((0, 1, 4, 5), (2, 3, 6, 7))]


class Group(NamedTuple):
    """Neighbouring weights that share a scale, of all rows."""

    scale: Value  # f32[lanes]
    words: list[Value]  # i32[lanes] each: codes of four columns, less the type's offset
    minimum: Value | None = None  # f32[lanes], where the type has no offset


def of_words(
    e: Emitter, quant: Quant, w: Value, row_bytes: Value, rows: Value, cols: Value, scratch: Value, out: Value
) -> None:
    """Columns of a panel at `out` (tile.py), with what the sums of its groups start at: `cols` columns of `rows` rows
    at `w`, the last of which fills up the lanes where there are fewer."""
    parts, step = panel_parts(e, out), 4 * e.tier.tile_rows
    at, stride = whole(e, quant, w, row_bytes, rows, cols, scratch)
    with e.loop(0, cols / quant.block) as block:
        first, number = block * (quant.block // 4), block * (quant.block // quant.group)
        for i, group in enumerate(quant.groups(e, Rows(e, at + block * quant.bytes, stride))):
            for j, word in enumerate(group.words, i * quant.group // 4):
                e.store(word, parts.codes + (first + j) * step)
            e.store(group.scale, parts.scales + (number + i) * step)
            if group.minimum:
                e.store(group.minimum, parts.minimums + (number + i) * step)
            e.store(start(e, group.words), parts.starts + (number + i) * step)
            e.order()


def start(e: Emitter, words: list[Value]) -> Value:
    """What sums of a group start at, i32[lanes]: the bits of ROUND, less what raised activations add to products."""
    kind = vec(I8, 4 * e.tier.lanes)
    total = e.const(vec(I32, e.tier.lanes))
    for word in words if e.raised() else []:
        total = e.multiply(total, [e.const(kind, 1)], [e.bits(word, kind)])
    return e.const(total.kind, ROUND_BITS) - total * e.raised()


def whole(
    e: Emitter, quant: Quant, w: Value, row_bytes: Value, rows: Value, cols: Value, scratch: Value
) -> tuple[Value, Value]:
    """Where there are as many rows as lanes, and how far apart: copies where fewer are left."""
    at, stride, size = e.var(I64, w), e.var(I64, row_bytes), DEPTH // quant.block * quant.bytes
    with e.when(rows < e.tier.lanes):
        with e.loop(0, e.tier.lanes) as row, e.loop(0, cols / quant.block * quant.bytes, quant.bytes) as k:
            block = e.load(w + e.least(row, rows - 1) * row_bytes + k, vec(I8, quant.bytes))
            e.store(block, scratch + row * size + k)
        at.set(scratch)
        stride.set(size)
    return at.get(), stride.get()


def of_rows(
    e: Emitter, quant: Quant, w: Value, row_bytes: Value, rows: Value, cols: Value, scratch: Value, out: Value
) -> None:
    """The same of rows that are unpacked."""
    n, parts = e.tier.lanes, panel_parts(e, out)
    scales, minimums = scratch + n * DEPTH, scratch + n * (DEPTH + DEPTH // 4)
    with e.loop(0, n) as lane:
        places = (scratch + lane * DEPTH, scales + lane * (DEPTH // 4), minimums + lane * (DEPTH // 4))
        quant.unpack(e, w + e.least(lane, rows - 1) * row_bytes, cols, *places)
    transpose(e, scratch, e.const(I64, DEPTH), cols >> 2, parts.codes)
    transpose(e, scales, e.const(I64, DEPTH // 4), cols / quant.group, parts.scales)
    if quant.name in MINIMUMS:
        transpose(e, minimums, e.const(I64, DEPTH // 4), cols / quant.group, parts.minimums)
    step, group = 4 * e.tier.tile_rows, 32 if quant.name in MINIMUMS else quant.group
    with e.loop(0, cols, group) as k:
        words = [e.load(parts.codes + ((k >> 2) + word) * step, vec(I32, n)) for word in range(group // 4)]
        e.store(start(e, words), parts.starts + (k / quant.group) * step)
