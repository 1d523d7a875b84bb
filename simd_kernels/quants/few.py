"""Products of rows of weights with a few rows of activations: each weight is unpacked once for all of them.

A span of 256 columns has 8 groups of 32, which are the lanes of sums: products of group g of all spans are added in
order of columns in lane g, and the lanes at the end.  No row's result depends on how many others there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llvmlite import ir

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import SPAN, SPAN_BYTES
from edgeinfer.simd_kernels.panel import turn
from edgeinfer.simd_kernels.quants.streams import prefetch, side_by_side, streams
from edgeinfer.simd_kernels.values import F32, I8, I32, I64, Value, vec

if TYPE_CHECKING:
    from edgeinfer.simd_kernels.quants.quant import Quant

LANES, WIDE = range(8), vec(F32, 16)
PANEL_BYTES = SPAN + 128  # of a span of a row of weights, unpacked


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
    size = SPAN // quant.block * quant.bytes
    room = e.memory(size) if quant.block < SPAN else None
    panel = e.memory(streams(e) * PANEL_BYTES)
    # As many sums as registers hold: loads are what a tile waits for, and each of codes or activations serves four.
    wide = e.tier.lanes == 16
    rows_abreast, pairs_abreast = (4, (4, 2, 1)) if wide else (1, (1,))
    with side_by_side(e, w, row_bytes, rows) as (first, apart, count):
        with e.loop(0, count * pairs) as i:
            e.store(e.const(WIDE), scratch + i * 64)
        with e.loop(0, cols, SPAN) as k:
            with e.loop(0, count) as row:
                at = w + (first + row * apart) * row_bytes + (k >> 8) * size
                unpack(e, quant, whole_span(e, quant, at, cols - k, room), panel + row * PANEL_BYTES)
            spans = x + (k >> 8) * pairs * span_bytes(fine)
            done = e.const(I64, 0)
            for n in pairs_abreast:
                # That a loop ends is often not foreseen: where tiles take several pairs, rows are more turns.
                loops: list[tuple[Value | int, Value, int]] = [(done, pairs & -n, n), (0, count, rows_abreast)]
                with e.loop(*loops[not wide]) as outer, e.loop(*loops[wide]) as inner:
                    pair, row = (outer, inner) if wide else (inner, outer)
                    some = [Span(spans + (pair + i) * span_bytes(fine), fine) for i in range(n)]
                    panels = [Panel(e, quant, panel + (row + i) * PANEL_BYTES) for i in range(rows_abreast)]
                    sums = [scratch + ((row + i) * pairs + pair) * 64 for i in range(rows_abreast)]
                    tile(e, quant, panels, some, sums)
                done = pairs & -n
        with e.loop(0, count) as row, e.loop(0, tokens) as token:
            total = e.total(e.load(scratch + (row * pairs * 2 + token) * 32, vec(F32, 8)))
            e.store(total, out + token * out_stride + (first + row * apart) * 4)


def whole_span(e: Emitter, quant: Quant, w: Value, cols: Value, room: Value | None) -> Value:
    """Where a span at `w` is to be read.  Where a row ends within it, its last block is repeated; activations there
    count for nothing."""
    blocks = SPAN // quant.block
    prefetch(e, [w], blocks * quant.bytes)
    place = e.var(I64, w)
    if room:
        rest = cols / quant.block
        with e.when(rest < blocks):
            with e.loop(0, blocks) as i:
                block = e.load(w + e.least(i, rest - 1) * quant.bytes, vec(I8, quant.bytes))
                e.store(block, room + i * quant.bytes)
            place.set(room)
    return place.get()


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


class Panel:
    """A span of a row of weights, unpacked: codes u8[8 words][8 groups][4], scales and minimums f32[8] of groups of 32,
    and of groups of 16 first of their first halves, then of the second ones."""

    def __init__(self, e: Emitter, quant: Quant, at: Value) -> None:
        self.e, self.at, self.halves = e, at, 32 // quant.group

    def codes(self, word: int) -> Value:
        """u8[64]: a word (of 32 bits) of each of the 8 groups, twice."""
        return self._twice(self.at + 32 * word, vec(I8, 32))

    def weights(self, half: int) -> tuple[Value, Value]:
        """Scales and minimums f32[16], twice."""
        at = self.at + SPAN + 32 * half
        return self._twice(at, vec(F32, 8)), self._twice(at + 32 * self.halves, vec(F32, 8))

    def _twice(self, at: Value, kind: ir.VectorType) -> Value:
        once = self.e.load(at, kind)
        return self.e.join(once, once)


def unpack(e: Emitter, quant: Quant, w: Value, panel: Value) -> None:
    """Make a panel of the span at `w`."""
    codes = quant.load(e, w, SPAN // quant.block)
    columns = quant.by_word(e, w) or by_word(e, codes.chunks, quant.order(e, SPAN // quant.block))
    for i, column in enumerate(columns):
        e.store(column, panel + i * (SPAN // len(columns)))
    at = panel + SPAN
    for numbers in (codes.scales, e.centred(codes.minimums, codes.scales, quant.wide)):
        e.store(numbers if quant.group == 32 else e.pick(numbers, [*range(0, 16, 2), *range(1, 16, 2)]), at)
        at = at + 4 * numbers.lanes


def by_word(e: Emitter, chunks: list[Value], order: Sequence[int]) -> list[Value]:
    """The words (of 32 bits) of 8 groups, as i32[8 words][8 groups] in several vectors."""
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
        return turn(e, rows)
    # Here instructions pick any lanes of two vectors; two of them hold four groups, in all types.
    fours = [[g for g in LANES if lane(g, 0) // 32 == half] for half in range(2)]
    parts = [
        [
            e.pick(words[2 * half], [lane(g, word) % 32 for word in four for g in groups], words[2 * half + 1])
            for four in (LANES[:4], LANES[4:])
        ]
        for half, groups in enumerate(fours)
    ]
    places = {g: 16 * half + i for half, groups in enumerate(fours) for i, g in enumerate(groups)}
    return [
        e.pick(
            parts[0][two // 4],
            [places[g] + 4 * (word % 4) for word in (two, two + 1) for g in LANES],
            parts[1][two // 4],
        )
        for two in LANES[::2]
    ]


def tile(e: Emitter, quant: Quant, panels: list[Panel], spans: list[Span], sums: list[Value]) -> None:
    """Of each row of weights and each two of activations add the products to sums f32[2][8], which lie pair by pair at
    an address for each row of weights."""
    words = quant.group // 4
    for half in range(32 // quant.group):
        exact = products(e, quant, panels, spans, range(half * words, (half + 1) * words))
        weights = [panel.weights(half) for panel in panels]
        for i, span in enumerate(spans):
            d, low = (
                e.load(span.scales, WIDE),
                e.load(span.sums if quant.group == 32 else span.halves + 64 * half, WIDE),
            )
            for (scale, minimum), at, row in zip(weights, sums, exact, strict=True):
                total = e.fma(minimum, low, e.load(at + 64 * i, WIDE))
                e.store(e.fma(e.to_float(row[i]) * scale, d, total), at + 64 * i)
            e.order()


def products(e: Emitter, quant: Quant, panels: list[Panel], spans: list[Span], words: range) -> list[list[Value]]:
    """Sums of products of these words, i32[2][8], of each row of weights and each two of activations."""
    exact = [[e.const(vec(I32, 16)) for _ in spans] for _ in panels]
    for plane in range(len(spans[0].planes)):
        exact = [[total << 8 for total in row] for row in exact]
        for word in words:
            columns = [panel.codes(word) for panel in panels]
            for i, span in enumerate(spans):
                x = e.load(span.planes[plane] + 64 * word, vec(I8, 64))
                for row, column in zip(exact, columns, strict=True):
                    row[i] = e.dot(row[i], column, x, quant.wide)
            e.order()
    return exact
