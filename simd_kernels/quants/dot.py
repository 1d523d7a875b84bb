"""The dot product of rows of weights with one row of activations: rows are read side by side, part by part of their
columns, and their sums grow lane by lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from llvmlite import ir

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants.loads import sixteens
from edgeinfer.simd_kernels.quants.streams import prefetch
from edgeinfer.simd_kernels.quants.sums import Sums, dots, dots_fine, sums_fine
from edgeinfer.simd_kernels.values import F32, I1, I32, I64, Value, Var, vec

if TYPE_CHECKING:
    from edgeinfer.simd_kernels.quants.quant import Quant

WIDE = vec(F32, 16)
ABREAST = 4  # rows whose scales are unpacked together


class InMemory:
    """As a Var, at an address."""

    def __init__(self, e: Emitter, at: Value, kind: ir.VectorType) -> None:
        self.e, self.at, self.kind = e, at, kind

    def get(self) -> Value:
        return self.e.load(self.at, self.kind)

    def set(self, value: Value) -> None:
        self.e.store(value, self.at)


class RowSums:
    """Where `count` rows lie that are read side by side, `apart` bytes from one to the next, and their sums, all of
    them in registers where a tier has so many.  They begin at zero.  The last row stands for those that are not
    there."""

    def __init__(self, e: Emitter, rows: int, kind: ir.VectorType, apart: Value, count: Value) -> None:
        self.e, self.rows, self.kind, self.count = e, rows, kind, count
        last = count - 1
        self.vars = [e.var(kind) for _ in range(self.rows if e.tier.registers > 16 else 0)]
        self.places = [e.least(e.const(I64, i), last) * apart for i in range(len(self.vars))]
        if not self.vars:
            self.memory, self.kept = e.memory(64 * self.rows), e.memory(8 * self.rows)
            with e.loop(0, self.rows) as row:
                e.store(e.const(WIDE), self.memory + row * 64)
                e.store(e.least(row, last) * apart, self.kept + row * 8)

    def abreast(self) -> Iterator[tuple[list[Value], Sequence[Var | InMemory]]]:
        """Bytes from the first row to a few rows after the other, and their sums: the loop over all of them."""
        e, n = self.e, min(ABREAST, self.rows)
        for first in range(0, len(self.vars), n):
            yield self.places[first : first + n], self.vars[first : first + n]
        if not self.vars:
            with e.loop(0, self.count, n) as row:
                places = [e.load(self.kept + (row + i) * 8, I64) for i in range(n)]
                yield places, [self._in_memory(row + i) for i in range(n)]

    def write(self, out: Value, apart: Value) -> None:
        """Each row's sum, `apart` bytes after the other's."""
        e = self.e

        def put(row: Value, total: Var | InMemory) -> None:
            e.store(e.total(e.fold(total.get(), 4)), out + row * apart)

        for i, total in enumerate(self.vars):
            put(e.least(e.const(I64, i), self.count - 1), total)
        if not self.vars:
            with e.loop(0, self.count) as row:
                put(row, self._in_memory(row))

    def _in_memory(self, row: Value) -> InMemory:
        return InMemory(self.e, self.memory + row * 64, self.kind)


class Part:
    """Some columns of all rows: the activations there, which rows share, and what is to be done for each row.  The
    first columns, `again` of them, count for nothing."""

    def __init__(
        self,
        e: Emitter,
        quant: Quant,
        x: Value,
        cols: Value,
        fine: bool,
        k: Value,
        blocks: int,
        again: Value | None = None,
    ) -> None:
        self.e, self.quant, self.blocks = e, quant, blocks
        self.order, self.turn, self.paired = quant.order(e, blocks), quant.turn(e, blocks), quant.as_pairs(e)
        n = blocks * quant.block
        groups = n // quant.group
        fours = [[16 * number for number in self.order[i : i + 4]] for i in range(0, n // 16, 4)]
        self.planes = [
            [sixteens(e, plane + k, n, four) for four in fours]
            for plane in ([x, x + cols + (cols >> 1)] if fine else [x])
        ]
        d = e.pick(e.load(x + cols + (k >> 3), vec(F32, n // 32)), [g * quant.group // 32 for g in self.turn])
        eighth = 3 if quant.group == 32 else 2
        self.x_sums = e.pick(e.load(x + cols + (cols >> eighth) + (k >> eighth), vec(F32, groups)), self.turn)
        if again is not None:
            seen = e.const(vec(I64, groups), [g * quant.group for g in self.turn]) < e.splat(again, groups)
            d, self.x_sums = (e.select(seen, e.const(numbers.kind), numbers) for numbers in (d, self.x_sums))
        self.d = d
        if self.paired:  # every second lane is a minimum's
            lanes = [lane // 2 + groups * (lane % 2) for lane in range(2 * groups)]
            self.d = e.pick(d, lanes, self.x_sums)
        self.centred = quant.offset and quant.offset == e.centre(quant.wide)  # no minimums are left
        if quant.offset:
            self.x_sums = self.x_sums * -float(quant.offset - e.centre(quant.wide))

    def add(self, places: list[Value], sums: Sequence[Var | InMemory]) -> None:
        """Add the products of rows with blocks at these places, in two steps for all of them, as scales take long until
        they are known: a core that looks ahead over a few hundred instructions would find nothing else to do."""
        e, quant = self.e, self.quant
        prefetch(e, places, self.blocks * quant.bytes)
        weights = quant.weights(e, places, self.blocks)
        scales = [self.scaled(total, row.scales, row.minimums) for total, row in zip(sums, weights, strict=True)]
        for place, row, scale, total in zip(places, weights, scales, sums, strict=True):
            self.multiply(scale, quant.factors(e, place, self.blocks, row.more), total)

    def scaled(self, total: Var | InMemory, scales: Value, minimums: Value) -> Value:
        """Add the minimums; the scales times those of activations."""
        e = self.e
        scales = scales * self.d
        if self.paired:
            odd = e.const(vec(I1, scales.lanes), [0, 1] * (scales.lanes // 2))
            if scales.lanes == 16:
                total.set(e.select(odd, total.get() + scales, total.get()))
            else:
                total.set(total.get() + e.fold(e.select(odd, scales, e.const(scales.kind)), 16))
        elif not self.centred:
            self.grow(total, minimums, self.x_sums)
        return scales

    def grow(self, sums: Var | InMemory, x: Value, y: Value) -> None:
        """Add x * y to the first lanes; where vectors are narrower than sums the others are left alone."""
        e, before = self.e, sums.get()
        if e.tier.lanes == 16 or x.lanes == 16:
            sums.set(e.fma(e.fold(x, 16), e.fold(y, 16), before))
        else:
            low = e.fma(e.fold(x, 8), e.fold(y, 8), e.part(before, 0, 8))
            sums.set(e.join(low, e.part(before, 8, 8)))

    def multiply(self, scales: Value, chunks: list[Value], sums: Var | InMemory) -> None:
        """Add the products."""
        e, apart = self.e, 2 if self.paired else 1
        for total, groups in self.totals(chunks):
            self.grow(sums, e.to_float(total), e.pick(scales, [self.turn.index(group) * apart for group in groups]))

    def totals(self, chunks: list[Value]) -> Iterator[tuple[Value, list[int]]]:
        """Sums of products, i32[lanes], and the group each lane is of.

        Where it is quick, neighbouring lanes are added and two vectors become one, down to one for each plane: what is
        left to be done takes longer for each."""
        e, eight = self.e, len(self.turn) <= 8
        sums = list(self.products(chunks))
        while len(sums) % 2 == 0 and all(one.gathers(e, eight) for one in sums):
            sums = [x.gathered(e, y) for x, y in zip(sums[::2], sums[1::2], strict=True)]
        if len(sums) == 1:
            sums = [sums[0].narrowed(e, eight)]
        for one in sums:
            total = one.planes[0]
            for low in one.planes[1:]:
                total = (total << 8) + low
            yield total, one.groups

    def products(self, chunks: list[Value]) -> Iterator[Sums]:
        """Sums of four products each; neighbouring chunks of the same groups are one sum."""
        e, group = self.e, self.quant.group
        parts: list[tuple[list[int], int, Value]] = []  # groups of the lanes, the first sixteen, codes
        start = 0
        for chunk in chunks:
            parts.append(([16 * self.order[start + i // 4] // group for i in range(chunk.lanes // 4)], start, chunk))
            start += chunk.lanes // 16
        for groups, alike in groupby(parts, itemgetter(0)):
            _, starts, codes = zip(*alike, strict=True)
            zero, places = e.const(vec(I32, len(groups))), list(zip(starts, codes, strict=True))
            x = [[e.part(plane[at // 4], at % 4 * 16, some.lanes) for at, some in places] for plane in self.planes]
            alone = all(len(set(groups[i : i + 8])) == 1 for i in range(0, len(groups), 8))  # 32 bytes of one group
            if len(x) > 1 and sums_fine(e, self.quant.largest) and alone:
                planes = [dots_fine(e, codes, *x)]
            else:
                planes = [dots(e, zero, codes, plane, self.quant.largest, self.quant.smallest) for plane in x]
            yield Sums(planes, groups, 4 * 127 * self.quant.largest * len(starts))
