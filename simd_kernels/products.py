"""What attention multiplies, by how the cache holds K and V: query rows with keys, and weights with values.

Some rows at a time have their sums in registers while lines of numbers pass, 16 * vectors of them side by side: one
dim of as many keys, or as many dims of one value.  Many rows share the work of converting these: up to PANEL lines
become a *panel* of floats that stays in the first cache while all rows pass.  Few rows take lines as they come from
memory, which is what takes the time then.  Every sum runs over the dims, or over the keys, in order, whatever the way.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.kv import padded, quantised
from edgeinfer.simd_kernels.layout import BLOCK, HEAD_ROOM, ROW, VECTORS
from edgeinfer.simd_kernels.layout import KV_BYTES as BYTES
from edgeinfer.simd_kernels.rows import WIDE, get, put, sweep
from edgeinfer.simd_kernels.values import F32, I8, I16, I32, Value, vec

LOG2E = 1.4426950408889634  # scores are exponents of two
SOME = 8  # lines that are asked for together where they are short
Lines = Callable[[Callable[[Value, list[Value]], None]], None]  # calls what it is given for each line with its number


@dataclass(frozen=True)
class Ahead:
    """What is read later and asked for now, `size` bytes with every line that is multiplied.

    Eight places are asked for in turn, as a core's prefetchers follow each 4 kB page on their own (quants/streams.py).
    """

    start: Value
    bytes: Value  # in all
    size: int
    before: Value  # lines since the start

    def after(self, lines: Value) -> "Ahead":
        return replace(self, before=self.before + lines)

    def ask(self, e: Emitter, line: Value, lines: int) -> None:
        turn = self.before + line if lines == 1 else (self.before + line) / lines
        at = self.start + (turn & 7) * ((self.bytes >> 3) & -64) + (turn >> 3) * (lines * self.size)
        for byte in range(0, lines * self.size, 64):
            e.prefetch(at + byte)


@contextmanager
def asking(e: Emitter, begin: Value, end: Value, aheads: list[Ahead]) -> Iterator[Value]:
    """for line in range(begin, end)"""
    if all(ahead.size >= 128 for ahead in aheads):
        with e.loop(begin, end) as line:
            for ahead in aheads:
                ahead.ask(e, line, 1)
            yield line
    else:
        with e.loop(begin, end, SOME) as first:
            for ahead in aheads:
                ahead.ask(e, first, SOME)
            with e.loop(first, e.least(first + SOME, end)) as line:
                yield line


class Floats:
    """f32 and f16."""

    def __init__(self, e: Emitter, r: SimpleNamespace, kv_type: str) -> None:
        self.e, self.r, self.size = e, r, BYTES[kv_type]
        self.vectors = VECTORS[e.tier.lanes]

    def query(self, row: Value, q: Value) -> None:
        """At q the scaled query at `row`."""
        e, scale = self.e, self.e.splat(self.r.scale_f32 * LOG2E, 16)
        sweep(e, self.r.key_dim, lambda k, mask: put(e, get(e, row + k * 4, mask) * scale, q + k * 4, mask))

    def keys(self, blocks: list[Value], dim: Value) -> list[Value]:
        """One dim of the keys of each block."""
        return [self._floats(block + dim * (BLOCK * self.size)) for block in blocks]

    def values(self, block: Value, dims: list[Value]) -> Callable[[Value], list[Value]]:
        """A function of the number of a value in the block: its dims, 16 from each of these on."""
        width = padded(self.r.value_dim)
        return lambda n: [self._floats(block + (n * width + dim) * self.size) for dim in dims]

    def _floats(self, address: Value) -> Value:
        if self.size == 2:
            return self.e.half_to_float(self.e.load(address, vec(I16, 16)))
        return self.e.load(address, WIDE)


class Codes:
    """q8_0.  Queries are codes as well, i8[key_dim], behind them (at HEAD_ROOM) for each 32 dims a scale f32 and an i32
    where the sum of products starts, which makes up for the keys' being raised."""

    size = 1

    def __init__(self, e: Emitter, r: SimpleNamespace) -> None:
        self.e, self.r = e, r
        self.vectors = VECTORS[e.tier.lanes]
        self.spare = e.memory(64 * self.vectors)  # f32[vectors][BLOCK]

    def query(self, row: Value, q: Value) -> None:
        e = self.e

        def take(d: Value, codes: Value, scale: Value) -> None:
            e.store(codes, q + d)
            total = e.total(e.dot(e.const(vec(I32, 8)), e.const(codes.kind, 1), codes, False))
            numbers = self._numbers(q, d)
            e.store(scale * (self.r.scale_f32 * LOG2E), numbers)
            e.store(total * (e.centre(True) - 128), numbers + 4)

        quantised(e, row, self.r.key_dim, take)

    def _numbers(self, q: Value, d: Value) -> Value:
        return q + HEAD_ROOM + (d >> 5) * 8

    def scores(self, rows: int, q: Value, blocks: list[Value], scores: Value) -> None:
        """q . k of each row with the keys of each block, f32[16 * vectors] at `scores`; rows lie ROW bytes apart."""
        e, width = self.e, padded(self.r.key_dim)
        with e.loop(0, width, 32) as d:
            numbers = self._numbers(q, d)
            starts = [e.splat(e.load(numbers + (i * ROW + 4), I32), 16) for i in range(rows)]
            sums = [[e.var(start.kind, start) for _ in blocks] for start in starts]
            with e.loop(d, e.least(d + 32, width), 4) as word:
                keys = [e.load(block + word * BLOCK, vec(I8, 64)) for block in blocks]
                for i, row in enumerate(sums):
                    code = e.bits(e.splat(e.load(q + i * ROW + word, I32), 16), vec(I8, 64))
                    for total, key in zip(row, keys, strict=True):
                        total.set(e.dot(total.get(), key, code, True))
            for j, block in enumerate(blocks):
                scales = e.half_to_float(e.load(block + width * BLOCK + (d >> 5) * (2 * BLOCK), vec(I16, 16)))
                for i in range(rows):
                    place = scores + (i * ROW + j * 64)
                    factor = scales * e.splat(e.load(numbers + i * ROW, F32), 16)
                    before = e.select(d > 0, e.load(place, WIDE), 0.0)
                    e.store(e.fma(e.to_float(sums[i][j].get()), factor, before), place)

    def values(self, block: Value, dims: list[Value]) -> Callable[[Value], list[Value]]:
        e, width = self.e, padded(self.r.value_dim)
        for j, dim in enumerate(dims):
            scales = e.load(block + width * BLOCK + (dim >> 5) * (2 * BLOCK), vec(I16, BLOCK))
            e.store(e.half_to_float(scales), self.spare + 64 * j)

        def value(n: Value) -> list[Value]:
            codes = [e.widen_signed(e.load(block + n * width + dim, vec(I8, 16)), vec(I32, 16)) for dim in dims]
            scales = [e.splat(e.load(self.spare + (64 * j + n * 4), F32), 16) for j in range(len(dims))]
            return [e.to_float(x) * scale for x, scale in zip(codes, scales, strict=True)]

        return value


def product(e: Emitter, rows: int, out: Value, fresh: Value, numbers: Value, lines: Lines) -> None:
    """Add to each row at `out`, 16 * vectors wide, its numbers times the lines; `fresh`: put that in its place.

    Rows, of outputs and of numbers, lie ROW bytes apart."""
    vectors = VECTORS[e.tier.lanes]
    places = [[out + (i * ROW + 64 * j) for j in range(vectors)] for i in range(rows)]
    sums = [[e.var(WIDE, e.select(fresh, e.const(WIDE), e.load(place, WIDE))) for place in row] for row in places]

    def add(n: Value, line: list[Value]) -> None:
        for i, row in enumerate(sums):
            number = e.splat(e.load(numbers + n * 4 + i * ROW, F32), 16)
            for total, vector in zip(row, line, strict=True):
                total.set(e.fma(number, vector, total.get()))

    lines(add)
    for row, totals in zip(places, sums, strict=True):
        for place, total in zip(row, totals, strict=True):
            e.store(total.get(), place)


@dataclass(frozen=True)
class Panel:
    """Lines of floats in memory, the first with this number."""

    e: Emitter
    place: Value
    first: Value

    def _at(self, number: Value) -> Value:
        return self.place + (number - self.first) * (64 * VECTORS[self.e.tier.lanes])

    def put(self, number: Value, line: list[Value]) -> None:
        for j, vector in enumerate(line):
            self.e.store(vector, self._at(number) + 64 * j)

    def lines(self, begin: Value, end: Value) -> Lines:
        """Those with numbers begin..end - 1."""

        def each(take: Callable[[Value, list[Value]], None]) -> None:
            with self.e.loop(begin, end) as n:
                take(n, [self.e.load(self._at(n) + 64 * j, WIDE) for j in range(VECTORS[self.e.tier.lanes])])

        return each
