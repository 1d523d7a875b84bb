"""Rows of weights become columns of a panel (panel.py), as many rows at a time as a register has lanes.

Types for which it is worthwhile say what their words are (`Quant.groups`): the same word of all rows is a vector, so
that scales of all rows are decoded at once and nothing is written down on the way.  Rows of the others are unpacked one
by one, and transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import DEPTH
from edgeinfer.simd_kernels.panel import panel_parts, transpose
from edgeinfer.simd_kernels.tile import Tile, tile_of
from edgeinfer.simd_kernels.values import I8, I16, I32, I64, Value, vec

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

    scale: Value  # f32[lanes]; where scales are whole numbers times this, those are the `step`
    words: list[Value]  # i32[lanes] each: codes of four columns, less the type's offset
    minimum: Value | None = None  # f32[lanes], where the type has no offset
    step: Value | None = None  # i32[lanes]


Taken = tuple[list[Value], "Value | None"]  # words of a group, and where a tile takes it the step, i16 twice


def of_words(
    e: Emitter, quant: Quant, w: Value, row_bytes: Value, rows: Value, cols: Value, scratch: Value, out: Value
) -> None:
    """Columns of a panel at `out` (panel.py), with what the sums of its groups start at: `cols` columns of `rows` rows
    at `w`, the last of which fills up the lanes where there are fewer."""
    parts, step, tile = panel_parts(e, out), 4 * e.tier.tile_rows, tile_of(quant.name)
    at, stride = whole(e, quant, w, row_bytes, rows, cols, scratch)
    with e.loop(0, cols / quant.block) as block:
        first, number = block * (quant.block // 4), block * (quant.block // quant.group)
        begun: list[Taken] = []
        for i, group in enumerate(quant.groups(e, Rows(e, at + block * quant.bytes, stride))):
            group = of_tile(e, tile, group)
            for j, word in enumerate(group.words, i * quant.group // 4):
                e.store(word, parts.codes + (first + j) * step)
            if group.minimum:
                e.store(group.minimum, parts.minimums + (number + i) * step)
            if group.step:
                e.store(group.step, parts.steps + (number + i) * step)
            begun.append((group.words, group.step))
            if len(begun) * quant.group == tile.span(e):
                place = (number + i + 1 - len(begun)) * step
                e.store(group.scale, parts.scales + place)
                e.store(start(e, tile, begun), parts.starts + place)
                begun = []
            e.order()


def of_tile(e: Emitter, tile: Tile, group: Group) -> Group:
    """The group with its step where the tile takes it: by itself, in its codes, or in its scale."""
    if group.step is None:
        return group
    if tile.stepped(e):
        return group._replace(step=twice(group.step))
    if tile.scales == "folded":
        return group._replace(words=[times(e, word, group.step) for word in group.words], step=None)
    return group._replace(scale=e.to_float(group.step) * group.scale, step=None)


def twice(step: Value) -> Value:
    """A number within 16 bits in both halves of 32."""
    return (step & 0xFFFF) | (step << 16)


def times(e: Emitter, word: Value, number: Value) -> Value:
    """Bytes of words times a number each."""
    kind = vec(I16, 2 * word.lanes)
    pairs, factor = e.bits(word, kind), e.bits(twice(number), kind)
    return e.bits(((pairs * factor) & 0xFF) | ((pairs & -256) * factor), word.kind)


def start(e: Emitter, tile: Tile, groups: Sequence[Taken]) -> Value:
    """What the sum of these groups starts at, i32[lanes]: less what raised activations add."""
    kind = vec(I8, 4 * e.tier.lanes)
    total = e.const(vec(I32, e.tier.lanes))
    for words, step in groups if e.raised() else []:
        factors = e.bits(step, vec(I16, 2 * e.tier.lanes)) if step else None
        for word in words:
            total = e.multiply(total, [e.const(kind, 1)], [e.bits(word, kind)], factors)
    return e.const(total.kind, tile.base(e)) - total * e.raised()


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
    n, parts, tile, step = e.tier.lanes, panel_parts(e, out), tile_of(quant.name), 4 * e.tier.tile_rows
    scales, minimums = scratch + n * DEPTH, scratch + n * (DEPTH + DEPTH // 4)
    with e.loop(0, n) as lane:
        row = w + e.least(lane, rows - 1) * row_bytes
        places = (scales + lane * (DEPTH // 4), minimums + lane * (DEPTH // 4))
        quant.unpack(e, row, cols, scratch + lane * DEPTH, *places)
        if tile.stepped(e):
            with e.loop(0, cols, quant.block) as k:
                steps, d = quant.steps(e, row + k / quant.block * quant.bytes)
                for numbers, place in zip((d, twice(steps)), places, strict=True):
                    e.store(numbers, place + k / quant.group * 4)
    transpose(e, scratch, e.const(I64, DEPTH), cols >> 2, parts.codes)
    transpose(e, scales, e.const(I64, DEPTH // 4), cols / quant.group, parts.scales)
    if tile.minimums or tile.stepped(e):
        place = parts.minimums if tile.minimums else parts.steps
        transpose(e, minimums, e.const(I64, DEPTH // 4), cols / quant.group, place)
    kind = vec(I32, n)
    with e.loop(0, cols, tile.span(e)) as k:
        groups: list[Taken] = []
        for first in range(0, tile.span(e), quant.group):
            codes, number = parts.codes + ((k + first) >> 2) * step, parts.steps + (k + first) / quant.group * step
            words = [e.load(codes + word * step, kind) for word in range(quant.group // 4)]
            groups.append((words, e.load(number, kind) if tile.stepped(e) else None))
        e.store(start(e, tile, groups), parts.starts + k / quant.group * step)
