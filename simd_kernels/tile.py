"""The inner part of the matrix multiply: tiles of tokens, which pass a panel of weights (panel.py).

A tile makes `tile_tokens` x `tile_rows` sums, broadcasts 4 activations of a token at a time, and needs no shuffles. The
scheme is that of BLIS (https://doi.org/10.1145/2764454), with the panel unpacked on its way into L1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace

from llvmlite import ir

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.instructions import ROUND, ROUND_BITS
from edgeinfer.simd_kernels.layout import DEPTH, MINIMUMS, WHOLE_SCALES, codes_to, group
from edgeinfer.simd_kernels.panel import panel_parts, panel_size, weights_in_pairs
from edgeinfer.simd_kernels.values import F32, I8, I16, I32, I64, Value, vec

EVERY = 128  # columns that a tile passes before it asks for more weights
STEPPED_NEAR = 16  # size of codes whose sums times steps are below 2**22
MANY_TOGETHER = 4  # words whose products are summed in 16 bits before those of all tokens become wide


class Sums:
    """tokens x (tile_rows / lanes) vectors of sums: in registers, or in memory of the call's own.  Loaded from and
    stored to places f32[tokens][tile_rows], tokens `stride` bytes apart."""

    def __init__(self, e: Emitter, tokens: int, held: bool) -> None:
        self.e, self.kind, self.vectors = e, vec(F32, e.tier.lanes), e.tier.tile_rows // e.tier.lanes
        self.places = [(t, v) for t in range(tokens) for v in range(self.vectors)]
        self.vars = {place: e.var(self.kind) for place in self.places} if held else {}
        self.memory = e.memory(0 if held else 4 * e.tier.lanes * len(self.places))

    def _at(self, home: Value, stride: Value | int, token: int, vector: int) -> Value:
        return home + stride * token + 4 * self.e.tier.lanes * vector

    def get(self, token: int, vector: int) -> Value:
        if self.vars:
            return self.vars[token, vector].get()
        return self.e.load(self._at(self.memory, 4 * self.e.tier.tile_rows, token, vector), self.kind)

    def set(self, value: Value, token: int, vector: int) -> None:
        if self.vars:
            self.vars[token, vector].set(value)
        else:
            self.e.store(value, self._at(self.memory, 4 * self.e.tier.tile_rows, token, vector))

    def load(self, start: Value, stride: Value) -> None:
        for place in self.places:
            self.set(self.e.load(self._at(start, stride, *place), self.kind), *place)

    def add(self, token: int, vector: int, *factors: tuple[Value, Value]) -> None:
        """Products to a vector of sums, which is loaded and stored once."""
        total = self.get(token, vector)
        for x, y in factors:
            total = self.e.fma(x, y, total)
        self.set(total, token, vector)

    def store(self, out: Value, stride: Value) -> None:
        for place in self.places:
            self.e.store(self.get(*place), self._at(out, stride, *place))


class Ahead:
    """Rows of weights whose panel comes next, `stride` bytes apart: `size` bytes of `each` of them are asked for at a
    time, into the second cache, so that memory works while registers do."""

    def __init__(self, e: Emitter, first: Value, stride: Value, size: Value, each: Value) -> None:
        self.e, self.stride, self.size, self.step = e, stride, size, stride * each
        self.place, self.end = e.var(I64, first), first + stride * e.tier.panel_rows

    def ask(self) -> None:
        e, place = self.e, self.place.get()
        with e.when(place < self.end):
            some = place + self.step
            with e.loop(place, e.least(some, self.end), self.stride) as row, e.loop(row, row + self.size, 64) as line:
                e.prefetch(line, cache=2)
            self.place.set(some)


@dataclass(frozen=True)
class Tile:
    """The tile for types whose scales, and minimums where they have any, cover `group` weights, 32 or 16.

    largest: size of a code.  Where scales are `whole` numbers times one of the block, a tier may multiply integers by
    these, the panel's *steps*; where their products with codes fit a byte as well (`folded`), the panel has those."""

    group: int
    largest: int
    minimums: bool = False
    scales: str = ""  # "whole" or "folded"

    @property
    def name(self) -> str:
        words = ("minimums" * self.minimums, self.scales)
        return ".".join(["tile", str(self.group), *filter(None, words), "to", str(self.largest)])

    def stepped(self, e: Emitter) -> bool:
        """Whether products are multiplied by steps."""
        return bool(self.scales) and e.takes_steps()

    def span(self, e: Emitter) -> int:
        """Weights to each scale of the panel, and to each number that a sum starts at."""
        return self.group if self.scales != "folded" and not self.stepped(e) else 32

    def base(self, e: Emitter) -> int:
        """What sums start at beside what raised activations add: the bits of ROUND, where they stay near that."""
        return 0 if self.stepped(e) and self.largest > STEPPED_NEAR else ROUND_BITS

    def in_pairs(self, e: Emitter) -> bool:
        """Whether codes are multiplied as 16 bits."""
        return e.in_16_bits(self.largest) == 0

    def held(self, e: Emitter) -> bool:
        """Whether registers hold the sums: those of a whole tile, or where groups of 16 have scales or minimums of
        their own, those of a part, which takes a few more instructions and spares many stores."""
        apart = self.span(e) == 16 or (self.minimums and self.group == 16)
        return e.tier.held_tokens == e.tier.tile_tokens or (e.tier.held_tokens > 0 and apart)

    def tokens(self, e: Emitter) -> int:
        """How many of a tile go over the columns at a time."""
        return e.tier.held_tokens if self.held(e) else e.tier.tile_tokens

    def body(
        self,
        e: Emitter,
        panel: Value,
        x: Value,
        stride: Value,
        d: Value,
        sums: Value,
        cols: Value,
        panels: Value,
        tiles: Value,
        start: Value,
        start_stride: Value,
        out: Value,
        out_stride: Value,
        *wanted: Value,
    ) -> None:
        """out f32[tiles * tile_tokens][panels * tile_rows] = start, likewise, + panels times tiles of activations,
        which are `stride` bytes apart; tokens of start and out lie so many bytes apart.  wanted: as `Ahead` has it.

        Of the first tile x i8[cols / 4][tile_tokens][4], d f32[cols / 32][tile_tokens], sums f32[cols /
        group][tile_tokens], as activation.quantise has them: every address is a constant away from one that only
        counts up, so that broadcasts need no address arithmetic. Products of a group start where integers are the
        bits of floats, which then take two operations to be scaled and added. Small tiles wait for loads, not for
        multiplications; and order is kept from word to word, or LLVM runs out of registers."""
        rows, tokens, some, size = e.tier.tile_rows, e.tier.tile_tokens, self.tokens(e), panel_size(e.tier)
        in_pairs, acc, later = self.in_pairs(e), Sums(e, some, self.held(e)), Ahead(e, *wanted)
        pairs, step = panel + size * e.tier.panels, self.span(e) if e.tier.registers > 16 else 32
        if in_pairs:
            with e.loop(0, panels) as p:
                weights_in_pairs(e, panel + p * size, cols, pairs + p * (rows * 2 * DEPTH))
        with e.loop(0, tiles) as tile, e.loop(0, panels) as p:
            ahead, across, codes, four = tile * stride, p * (4 * rows), panel + p * size, x + tile * stride
            if in_pairs:
                codes, four = pairs + p * (rows * 2 * DEPTH), pairs + e.tier.panel_rows * 2 * DEPTH
                with e.when(p.equals(0)):
                    activations_in_pairs(e, x + ahead, cols, four)
            parts = panel_parts(e, panel + p * size)
            with e.loop(0, tokens, some) as first:
                token, here, behind = tile * tokens + first, ahead + first * 4, ahead + stride
                at = (codes, four + first * (8 if in_pairs else 4))
                acc.load(start + token * start_stride + across, start_stride)
                if self.minimums and self.held(e):
                    self._minimums(e, parts.minimums, sums + here, cols, acc)
                with e.loop(0, cols, EVERY) as part:
                    later.ask()
                    with e.loop(part, e.least(part + EVERY, cols), step) as k:
                        prefetch(e, x + behind + first * cols + k * some, step * some)
                        prefetch(e, d + behind + (k >> 5) * (4 * tokens), 1)
                        for column in range(0, step, self.span(e)):
                            self._columns(e, parts, at, k + column, d + here, sums + here, acc)
                acc.store(out + token * out_stride + across, out_stride)

    def _minimums(self, e: Emitter, minimums: Value, sums: Value, cols: Value, acc: Sums) -> None:
        """Add all of them: not with the products, or LLVM copies all sums from register to register in each group."""
        rows, tokens = e.tier.tile_rows, e.tier.tile_tokens
        with e.loop(0, cols >> (self.group.bit_length() - 1)) as number:
            lows = [e.load(minimums + number * (4 * rows) + 4 * e.tier.lanes * v, acc.kind) for v in range(acc.vectors)]
            for t, factor in enumerate(e.spread(sums + number * (4 * tokens), self.tokens(e), F32, e.tier.lanes)):
                for v, low in enumerate(lows):
                    acc.add(t, v, (low, factor))

    def _columns(
        self, e: Emitter, parts: SimpleNamespace, at: tuple[Value, Value], k: Value, d: Value, sums: Value, acc: Sums
    ) -> None:
        """`span` columns from `k` on; `at`: the codes that are multiplied, of weights and of activations."""
        number = k >> (self.group.bit_length() - 1)
        numbers = self._numbers(e, parts, at, k, number)
        self._add(e, parts, numbers, number, d + (k >> 5) * (4 * e.tier.tile_tokens), sums, acc)

    def _add(
        self,
        e: Emitter,
        parts: SimpleNamespace,
        numbers: list[list[Value]],
        number: Value,
        d: Value,
        sums: Value,
        acc: Sums,
    ) -> None:
        """Numbers times the scales of activations at `d`; minimums of 32 columns, if they are not done yet."""
        rows, tokens, n, count = e.tier.tile_rows, e.tier.tile_tokens, e.tier.lanes, self.tokens(e)
        groups = [number + i for i in range(32 // self.group if self.minimums and not self.held(e) else 0)]
        totals = [e.spread(sums + group * (4 * tokens), count, F32, n) for group in groups]
        for t, factor in enumerate(e.spread(d, count, F32, n)):
            sums_of_x = [next(total) for total in totals]
            for v in range(acc.vectors):
                lows = [e.load(parts.minimums + group * (4 * rows) + 4 * n * v, acc.kind) for group in groups]
                acc.add(t, v, (numbers[v][t], factor), *zip(lows, sums_of_x, strict=True))
            if totals:
                e.order()
        e.order()

    def _numbers(
        self, e: Emitter, parts: SimpleNamespace, at: tuple[Value, Value], k: Value, number: Value
    ) -> list[list[Value]]:
        """Sums of products of `span` columns, from `k` on, times their scale: f32[lanes] for each vector of rows and
        each token."""
        rows, size = e.tier.tile_rows, 2 if self.in_pairs(e) else 1
        here, products = number * (4 * rows), (at[0] + k * (rows * size), at[1] + k * (e.tier.tile_tokens * size))
        exact = self._products(e, parts.starts + here, parts.steps + here, *products)
        numbers = []
        for v in range(rows // e.tier.lanes):
            scale = e.load(parts.scales + here + 4 * e.tier.lanes * v, vec(F32, e.tier.lanes))
            lift = scale * -ROUND
            numbers.append(
                [e.scaled(row[v], scale, lift) if self.base(e) else e.to_float(row[v]) * scale for row in exact]
            )
            e.order()
        return numbers

    def _products(self, e: Emitter, starts: Value, steps: Value, codes: Value, x: Value) -> list[list[Value]]:
        """Integer sums over `span` columns added to `starts`, i32[lanes] for each token and vector of rows."""
        together = e.in_16_bits(self.largest)
        if together >= MANY_TOGETHER:
            return self._products_in_16_bits(e, starts, steps, codes, x)
        n, rows, in_pairs = e.tier.lanes, e.tier.tile_rows, self.in_pairs(e)
        kind, step = vec(I16, 2 * n) if in_pairs else vec(I8, 4 * n), max(together, 1)
        exact = [self._vectors(e, starts, vec(I32, n))] * self.tokens(e)
        for first in range(0, self.span(e) // (2 if in_pairs else 4), step):
            words = range(first, first + step)
            w = [self._vectors(e, codes + 4 * rows * word, kind) for word in words]
            if first % 4 == 0:
                times = self._steps(e, steps, first)
            x_words = (activations_of(e, x, word, len(exact), in_pairs) for word in words)
            for t, some in enumerate(zip(*x_words, strict=True)):
                x_t = [e.bits(four, kind) for four in some]
                exact[t] = [e.multiply(exact[t][v], x_t, [word[v] for word in w], times[v]) for v in range(len(w[0]))]
            e.order()
        return exact

    def _products_in_16_bits(
        self, e: Emitter, starts: Value, steps: Value, codes: Value, x: Value
    ) -> list[list[Value]]:
        """The same where the sums of many products fit 16 bits, and stay in registers so."""
        n, rows, tokens = e.tier.lanes, e.tier.tile_rows, self.tokens(e)
        kind, exact = vec(I8, 4 * n), [self._vectors(e, starts, vec(I32, n))] * tokens
        for first in range(0, self.span(e) // 4, MANY_TOGETHER):
            pairs = [[e.const(vec(I16, 2 * n))] * (rows // n)] * tokens
            for word in range(first, first + MANY_TOGETHER):
                w = self._vectors(e, codes + 4 * rows * word, kind)
                for t, four in enumerate(activations_of(e, x, word, tokens)):
                    x_t = e.bits(four, kind)
                    pairs[t] = [e.multiply_pairs(total, x_t, w_v) for total, w_v in zip(pairs[t], w, strict=True)]
                e.order()
            times = self._steps(e, steps, first)
            exact = [list(map(e.add_pairs, *both, times)) for both in zip(exact, pairs, strict=True)]
            e.order()
        return exact

    def _steps(self, e: Emitter, steps: Value, word: int) -> list[Value | None]:
        """What sums of products of this word of weights are multiplied by, i16[2 * lanes] for each vector of rows."""
        rows, n = e.tier.tile_rows, e.tier.lanes
        if not self.stepped(e):
            return [None] * (rows // n)
        return [*self._vectors(e, steps + word // 4 * (4 * rows), vec(I16, 2 * n))]

    def _vectors(self, e: Emitter, at: Value, kind: ir.VectorType) -> list[Value]:
        """What is at an address for all rows."""
        return [e.load(at + 4 * first, kind) for first in range(0, e.tier.tile_rows, e.tier.lanes)]


def prefetch(e: Emitter, address: Value, size: int) -> None:
    """So many bytes, of the next tile's activations: all of them are more than the second cache holds."""
    for line in range(0, size, 64):
        e.prefetch(address + line)


def activations_of(e: Emitter, x: Value, word: int, count: int, in_pairs: bool = False) -> Iterator[Value]:
    """Word `word` of each of `count` tokens in all lanes: 4 bytes, or where they lie as 16 bits, two words for each 4
    of them, 2 numbers."""
    n, tokens = e.tier.lanes, e.tier.tile_tokens
    if not in_pairs:
        return e.spread(x + 4 * tokens * word, count, I32, n)
    first = x + 8 * tokens * (word // 2) + 4 * (word % 2)
    return (e.splat(e.load(first + 8 * t, I32), n) for t in range(count))


def activations_in_pairs(e: Emitter, x: Value, cols: Value, out: Value) -> None:
    """out u16[cols / 4][tokens][4] = raised codes u8."""
    step = 32 * e.tier.tile_tokens
    with e.loop(0, cols * e.tier.tile_tokens, step) as k:
        for part in range(0, step, 16):
            e.store(e.widen(e.load(x + k + part, vec(I8, 16)), vec(I16, 16)), out + k * 2 + part * 2)


def tile_float(
    e: Emitter,
    numbers: Value,
    x: Value,
    stride: Value,
    cols: Value,
    panels: Value,
    tiles: Value,
    start: Value,
    start_stride: Value,
    out: Value,
    out_stride: Value,
    *wanted: Value,
) -> None:
    """As Tile.body, with panels f32[cols][tile_rows] and activations f32[cols], tokens `stride` bytes apart."""
    n, rows, tokens = e.tier.lanes, e.tier.tile_rows, e.tier.tile_tokens
    kind, acc, later = vec(F32, n), Sums(e, tokens, True), Ahead(e, *wanted)
    with e.loop(0, tiles * tokens, tokens) as first, e.loop(0, panels) as p:
        weights, across = numbers + p * panel_size(e.tier), p * (4 * rows)
        acc.load(start + first * start_stride + across, start_stride)
        with e.loop(0, cols, EVERY) as some:
            later.ask()
            with e.loop(some, e.least(some + EVERY, cols)) as k:
                w = [e.load(weights + k * (4 * rows) + 4 * n * v, kind) for v in range(acc.vectors)]
                for t in range(tokens):
                    one = e.splat(e.load(x + stride * (first + t) + k * 4, F32), n)
                    for v in range(acc.vectors):
                        acc.add(t, v, (w[v], one))
        acc.store(out + first * out_stride + across, out_stride)


def tile_of(type_name: str) -> Tile:
    """The tile for weights of a quantised type."""
    scales = next((word for word, types in WHOLE_SCALES.items() if type_name in types), "")
    return Tile(group(type_name), codes_to(type_name), type_name in MINIMUMS, scales)
