"""Products of rows of weights with a few rows of activations: each weight is unpacked once for all of them.

A span of 256 columns has 8 groups of 32, which are the lanes of sums: products of group g of all spans are added in
order of columns in lane g, and the lanes at the end.  No row's result depends on how many others there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from edgeinfer.simd_kernels.emit import F32, I8, I32, I64, Emitter, Value, vec
from edgeinfer.simd_kernels.layout import SPAN, SPAN_BYTES
from edgeinfer.simd_kernels.tile import turn

if TYPE_CHECKING:
    from edgeinfer.simd_kernels.quants.quant import Codes, Quant

PREFETCH = 4096  # bytes ahead of the weights in use
ROWS_AHEAD = 4  # or so many rows, where only a part of each is used at a time
HELD_SPANS = 32  # of a pair of rows of activations: 24 kB, which stay in L1 while rows of weights pass
FEW_ROWS = 32  # rows of weights that pass them before it is the next spans' turn
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

    scratch: f32[FEW_ROWS][pairs][2][8] for sums."""
    pairs = (tokens + 1) >> 1
    held = (e.const(I64, HELD_SPANS) / pairs) * SPAN
    ahead = e.select(held >= cols, e.const(I64, PREFETCH), row_bytes * ROWS_AHEAD)
    abreast = 2 if e.tier.lanes == 16 else 1  # rows of weights, as many as there are registers for
    with e.loop(0, rows, FEW_ROWS) as first:
        last = e.least(first + FEW_ROWS, rows)
        with e.loop(0, pairs * FEW_ROWS) as i:
            e.store(e.const(vec(F32, 16)), scratch + i * 64)
        with e.loop(0, cols, held) as start, e.loop(first, last, abreast) as row:
            sums = scratch + (row - first) * pairs * 64

            def take(k: Value, codes: list[Codes]) -> None:
                here = x + (k >> 8) * pairs * span_bytes(fine)
                columns = [by_word(e, one.chunks, quant.order(SPAN // quant.block)) for one in codes]
                with e.loop(0, pairs) as pair:
                    span = Span(here + pair * span_bytes(fine), fine)
                    exact = column_sums(e, quant, columns, span)
                    for i, one in enumerate(codes):
                        place = sums + (pairs * i + pair) * 64
                        e.store(add_groups(e, quant, one, span, exact[i], e.load(place, vec(F32, 16))), place)

            sources = [w + e.least(row + i, last - 1) * row_bytes for i in range(abreast)]
            spans(e, quant, sources, start, e.least(start + held, cols), ahead, take)
        with e.loop(first, last) as row, e.loop(0, tokens) as token:
            total = e.total(e.load(scratch + ((row - first) * pairs * 2 + token) * 32, vec(F32, 8)))
            e.store(total, out + token * out_stride + row * 4)


def spans(
    e: Emitter,
    quant: Quant,
    rows: list[Value],
    start: Value,
    stop: Value,
    ahead: Value,
    take: Callable[[Value, list[Codes]], None],
) -> None:
    """take(first column, codes) for each span of the rows at these addresses from column `start` on.

    Where a row ends within a span, its last block is repeated; activations there count for nothing."""
    size = SPAN // quant.block * quant.bytes
    rooms = [e.memory(size) for _ in rows] if quant.block < SPAN else []
    with e.loop(start, stop, SPAN) as k:
        places = [e.var(I64, row + (k >> 8) * size) for row in rows]
        for place in places:
            for line in range(0, size, 64):
                e.prefetch(place.get() + ahead + line, cache=2)
        if rooms:
            rest = (stop - k) / quant.block
            with e.when(rest < SPAN // quant.block):
                for place, room in zip(places, rooms, strict=True):
                    with e.loop(0, SPAN // quant.block) as i:
                        block = e.load(place.get() + e.least(i, rest - 1) * quant.bytes, vec(I8, quant.bytes))
                        e.store(block, room + i * quant.bytes)
                    place.set(room)
        take(k, [quant.load(e, place.get(), SPAN // quant.block) for place in places])


def span_bytes(fine: bool) -> int:
    """Of two rows of activations."""
    return 2 * (SPAN_BYTES + (SPAN if fine else 0))


class Span:
    """Where a span of two rows of activations has its parts."""

    def __init__(self, at: Value, fine: bool) -> None:
        self.scales = at + 2 * SPAN
        self.sums = self.scales + 64
        self.halves = self.sums + 64  # sums over 16: of all first halves of groups, then of the second ones
        self.planes = [at, self.halves + 128] if fine else [at]


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
