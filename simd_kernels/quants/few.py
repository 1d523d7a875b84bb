"""Products of rows of weights with a few rows of activations: each weight is unpacked once for all of them.

A span of 256 columns has 8 groups of 32, which are the lanes of sums: products of group g of all spans are added in
order of columns in lane g, and the lanes at the end.  No row's result depends on how many others there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from edgeinfer.simd_kernels.emit import F32, I8, I32, I64, Emitter, Value, vec
from edgeinfer.simd_kernels.layout import SPAN, SPAN_BYTES
from edgeinfer.simd_kernels.quants.streams import AHEAD, side_by_side
from edgeinfer.simd_kernels.tile import turn

if TYPE_CHECKING:
    from edgeinfer.simd_kernels.quants.quant import Codes, Quant

LANES = range(8)


def few(
    e: Emitter,
    quant: Quant,
    fine: bool,
    w: Value,
    row_bytes: Value,
    rows: Value,
    x: Value,
    _: Value,
    cols: Value,
    out: Value,
    out_stride: Value,
    tokens: Value,
    scratch: Value,
) -> None:
    """out f32[tokens][rows] = rows of weights times rows of activations, in spans of pairs (activation.py), which
    have no stride.

    scratch: f32[streams][pairs][2][8] for sums."""
    pairs = (tokens + 1) >> 1
    abreast = 2 if e.tier.lanes == 16 else 1  # rows of weights, as many as there are registers for
    size = SPAN // quant.block * quant.bytes
    rooms = [e.memory(size) for _ in range(abreast)] if quant.block < SPAN else []
    with side_by_side(e, rows) as (first, apart, count):
        with e.loop(0, count * pairs) as i:
            e.store(e.const(vec(F32, 16)), scratch + i * 64)
        with e.loop(0, cols, SPAN) as k, e.loop(0, count, abreast) as row:
            which = [e.least(row + i, count - 1) for i in range(abreast)]
            places = [w + (first + r * apart) * row_bytes + (k >> 8) * size for r in which]
            codes = [load(e, quant, place, cols - k, room) for place, room in zip_longest(places, rooms)]
            columns = [by_word(e, one.chunks, quant.order(SPAN // quant.block)) for one in codes]
            with e.loop(0, pairs) as pair:
                span = Span(x + ((k >> 8) * pairs + pair) * span_bytes(fine), fine)
                exact = column_sums(e, quant, columns, span)
                sums = [scratch + (r * pairs + pair) * 64 for r in which]
                totals = [e.load(place, vec(F32, 16)) for place in sums]
                for one, products, total, place in zip(codes, exact, totals, sums, strict=True):
                    e.store(add_groups(e, quant, one, span, products, total), place)
        with e.loop(0, count) as row, e.loop(0, tokens) as token:
            total = e.total(e.load(scratch + (row * pairs * 2 + token) * 32, vec(F32, 8)))
            e.store(total, out + token * out_stride + (first + row * apart) * 4)


def load(e: Emitter, quant: Quant, w: Value, cols: Value, room: Value | None) -> Codes:
    """A span at `w`.  Where a row ends within it, its last block is repeated; activations there count for nothing."""
    blocks = SPAN // quant.block
    for line in range(0, blocks * quant.bytes, 64):
        e.prefetch(w + (AHEAD + line))
    place = e.var(I64, w)
    if room:
        rest = cols / quant.block
        with e.when(rest < blocks):
            with e.loop(0, blocks) as i:
                block = e.load(w + e.least(i, rest - 1) * quant.bytes, vec(I8, quant.bytes))
                e.store(block, room + i * quant.bytes)
            place.set(room)
    return quant.load(e, place.get(), blocks)


def span_bytes(fine: bool, rows: int = 2) -> int:
    """Of so many rows of activations."""
    return rows * (SPAN_BYTES + (SPAN if fine else 0))


class Span:
    """Where a span of one or two rows of activations has its parts: 32 bytes of each row at a time."""

    def __init__(self, at: Value, fine: bool, rows: int = 2) -> None:
        self.scales = at + SPAN * rows
        self.sums = self.scales + 32 * rows
        self.halves = self.sums + 32 * rows  # sums over 16: of all first halves of groups, then of the second ones
        self.planes = [at, self.halves + 64 * rows] if fine else [at]


def by_word(e: Emitter, chunks: list[Value], order: Sequence[int]) -> list[Value]:
    """8 vectors u8[64]: vector i has word i (of 32 bits) of each of the 8 groups, twice."""
    words = [e.bits(chunk, vec(I32, 16)) for chunk in chunks]
    at = {sixteen: 4 * place for place, sixteen in enumerate(order)}  # among the lanes of all chunks

    def lane(group: int, word: int) -> int:
        return at[2 * group + word // 4] + word % 4

    if e.tier.lanes < 16:
        rows = []
        for group in LANES:
            first, second = (words[lane(group, word) // 16] for word in (0, 4))
            lanes = [lane(group, word) % 16 + 16 * (word // 4) for word in LANES]
            rows.append(e.pick(first, lanes, second))
        columns = [e.join(column, column) for column in turn(e, rows)]
    else:  # has instructions that pick any lanes of two vectors; two of them hold four groups, in all types
        fours = [[g for g in LANES if lane(g, 0) // 32 == half] for half in range(2)]
        parts = [
            [
                e.pick(words[2 * half], [lane(g, word) % 32 for word in four for g in groups], words[2 * half + 1])
                for four in (LANES[:4], LANES[4:])
            ]
            for half, groups in enumerate(fours)
        ]
        places = {g: 16 * half + i for half, groups in enumerate(fours) for i, g in enumerate(groups)}
        columns = [
            e.pick(parts[0][word // 4], [places[g] + 4 * (word % 4) for g in LANES] * 2, parts[1][word // 4])
            for word in LANES
        ]
    return [e.bits(column, vec(I8, 64)) for column in columns]


def column_sums(e: Emitter, quant: Quant, columns: list[list[Value]], span: Span) -> list[list[Value]]:
    """For each row of weights and two of activations the sum of products of each group of a span, i32[16]; of groups
    of 16 those of the first halves, and those of the second ones."""
    sums: list[list[Value]] = [[] for _ in columns]
    words = quant.group // 4
    for first in range(0, 8, words):
        totals = [e.const(vec(I32, 16)) for _ in columns]
        for plane in span.planes:
            totals = [total << 8 for total in totals]
            for word in range(first, first + words):
                x = e.load(plane + 64 * word, vec(I8, 64))
                totals = [e.dot(t, row[word], x, quant.wide) for t, row in zip(totals, columns, strict=True)]
        for total, parts in zip(totals, sums, strict=True):
            parts.append(total)
    return sums


def add_groups(e: Emitter, quant: Quant, codes: Codes, span: Span, exact: list[Value], total: Value) -> Value:
    """total f32[2][8] + what the groups of a span come to."""
    minimums = e.centred(codes.minimums, codes.scales, quant.wide)
    d, sums = e.load(span.scales, vec(F32, 16)), span.sums if len(exact) == 1 else span.halves
    for i, products in enumerate(exact):
        lanes = [len(exact) * g + i for g in LANES] * 2
        scale, minimum = (e.pick(v, lanes) for v in (codes.scales, minimums))
        low = e.fma(minimum, e.load(sums + 64 * i, vec(F32, 16)), total)
        total = e.fma(e.to_float(products) * scale, d, low)
    return total
