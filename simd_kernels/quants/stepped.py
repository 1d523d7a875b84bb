"""Types whose scales are whole numbers, steps, times one float of a block, and their dot product.

Sums of products are multiplied by steps while they are integers: the instruction that adds neighbours multiplies, too.
So few sums become floats, and scales never do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants.dot import InMemory
from edgeinfer.simd_kernels.quants.loads import sixteens
from edgeinfer.simd_kernels.quants.quant import Quant
from edgeinfer.simd_kernels.quants.streams import prefetch, streams
from edgeinfer.simd_kernels.quants.sums import Sums, dots, steps_at, sums_short
from edgeinfer.simd_kernels.values import F32, I8, I16, I32, I64, Value, Var, vec


class Numbers(NamedTuple):
    """Addresses of a block's numbers: weight = d * step * (code - offset) - low * least."""

    d: Value  # of a f32
    steps: Value  # i8[groups]
    low: Value | None = None  # f32
    least: Value | None = None  # u8[groups]


class Stepped(Quant):
    """A type with blocks of 256 weights whose numbers are unpacked for several rows together."""

    block = 256
    signed = False  # its steps
    largest_step: int  # in size
    times: Sequence[int] = (1,)  # `factors` are so many times their codes, chunk by chunk in turn
    spots: Sequence[int] = range(8)  # where eights of a chunk of factors go, in registers of 32 bytes

    @abstractmethod
    def numbers(self, e: Emitter, places: list[Value]) -> list[Numbers]:
        """Of a block at each of these addresses."""

    def weights_of(self, e: Emitter, w: Value) -> tuple[Value, Value]:
        """Scales and minimums of the block at `w`, f32[groups]."""
        numbers, groups = self.numbers(e, [w])[0], self.block // self.group
        scales = e.to_float(self.widen(e, e.load(numbers.steps, vec(I8, groups)))) * spread(e, numbers.d, groups)
        if not numbers.least or not numbers.low:
            return scales, scales * -float(self.offset)
        least = e.to_float(self.widen(e, e.load(numbers.least, vec(I8, groups))))
        return scales, least * -spread(e, numbers.low, groups)

    def widen(self, e: Emitter, steps: Value) -> Value:
        """Steps i8[n], or minimums, as i32[n]."""
        return (e.widen_signed if self.signed else e.widen)(steps, vec(I32, steps.lanes))

    def arranged(self, e: Emitter) -> Sequence[int]:
        """`spots` on tiers with such registers: what has the same scales comes to stand in the same lanes."""
        return self.spots if e.tier.lanes == 8 else range(8)

    def eights(self, e: Emitter) -> Sequence[int]:
        """Which eight weights stand at each 8 codes of the `factors`."""
        numbers = [2 * sixteen + half for sixteen in self.order(e, 1) for half in range(2)]
        return [numbers[first + spot] for first in range(0, 32, 8) for spot in self.arranged(e)]

    def streams(self, e: Emitter) -> int:
        """Twice as many where sums are in memory anyway, as what is done once for all of them is worth it."""
        return streams(e) * (1 if e.tier.registers > 16 else 2)

    def sum_lanes(self, e: Emitter) -> int:
        return e.tier.lanes

    def part(
        self, e: Emitter, x: Value, cols: Value, fine: bool, k: Value, blocks: int, again: Value | None
    ) -> SteppedPart:
        return SteppedPart(e, self, x, cols, fine, k)


def arrange(e: Emitter, x: Value, spots: Sequence[int]) -> Value:
    """The eights of x u8[64] in this order."""
    return e.bits(e.pick(e.bits(x, vec(I64, 8)), spots), x.kind)


def kept(e: Emitter, count: int, *values: Value) -> list[list[Value]]:
    """Addresses of so many equal parts of each of these values, which are stored: many shuffles less."""
    places = []
    for x in values:
        size = x.kind.element.width // 8 * x.lanes if x.kind.element != F32 else 4 * x.lanes
        room = e.memory(max(64, size))
        e.store(x, room)
        places.append([room + size // count * i for i in range(count)])
    e.order()
    return places


def kept_halves(e: Emitter, places: list[Value]) -> list[Value]:
    """Addresses of the half floats at these addresses, as floats."""
    return kept(e, len(places), e.half_to_float(e.join(*(e.load(place, vec(I16, 1)) for place in places))))[0]


def spread(e: Emitter, address: Value, lanes: int) -> Value:
    """The float at `address` in every lane."""
    return e.splat(e.load(address, F32), lanes)


class SteppedPart:
    """256 columns of all rows: the activations there, which rows share, and what is to be done for each row."""

    def __init__(self, e: Emitter, quant: Stepped, x: Value, cols: Value, fine: bool, k: Value) -> None:
        self.e, self.quant, self.eights = e, quant, quant.eights(e)
        chunks = [self.eights[i : i + 8] for i in range(0, 32, 8)]
        planes = [x, x + cols + (cols >> 1)] if fine else [x]
        self.planes = [[eights(e, plane + k, chunk) for chunk in chunks] for plane in planes]
        self.d = e.load(x + cols + (k >> 3), vec(F32, 8))
        eighth = 3 if quant.group == 32 else 2
        self.x_sums = x + cols + (cols >> eighth) + (k >> eighth)

    def times(self, eight: int) -> int:
        """What the codes of these eight weights are multiplied by."""
        return self.quant.times[self.eights.index(eight) // 8 % len(self.quant.times)]

    def add(self, places: list[Value], sums: Sequence[Var | InMemory]) -> None:
        """Add the products of rows with blocks at these places."""
        e, quant = self.e, self.quant
        prefetch(e, places, quant.bytes)
        for place, numbers, total in zip(places, quant.numbers(e, places), sums, strict=True):
            steps = e.load(numbers.steps, vec(I8, 256 // quant.group))
            products = stepped(e, list(self.products(quant.factors(e, place, 1, None))), steps, quant)
            lanes = total.kind.count
            after = e.fma(self.summed(map(self.scaled, products), lanes), spread(e, numbers.d, lanes), total.get())
            if numbers.least and numbers.low:
                least = self.summed(self.minimums(numbers.least), lanes)
                after = e.fma(least, -spread(e, numbers.low, lanes), after)
            if quant.offset and not sums_short(e):
                least = self.summed(self.minimums(numbers.steps), lanes)
                after = e.fma(least, spread(e, numbers.d, lanes) * -float(quant.offset), after)
            total.set(after)

    def summed(self, terms: Iterator[tuple[Value, Value]], lanes: int) -> Value:
        """The sum of products of two, in so many lanes."""
        x, y = next(terms)
        total = x * y
        for x, y in terms:
            total = self.e.fma(x, y, total)
        return self.e.fold(total, lanes)

    def scaled(self, sums: Sums) -> tuple[Value, Value]:
        """Sums as floats, and the scales of activations that they still want."""
        e, lanes = self.e, sums.groups
        high, *low = map(e.to_float, sums.planes)
        total = e.fma(high, e.const(high.kind, 256.0), low[0]) if low else high
        d = e.pick(self.d, [group * self.quant.group // 32 for group in lanes])
        if max(self.quant.times) > 1:
            eighths = [group * self.quant.group // 8 for group in lanes]
            d = d * e.const(d.kind, [1.0 / self.times(eight) for eight in eighths])
        return total, d

    def minimums(self, least: Value) -> Iterator[tuple[Value, Value]]:
        """The numbers at an address, one for each group, and the sums of activations that they are multiplied with."""
        e, groups = self.e, 256 // self.quant.group
        n = min(groups, e.tier.lanes)
        numbers = e.to_float(self.quant.widen(e, e.load(least, vec(I8, groups))))
        for i in range(0, groups, n):
            yield e.part(numbers, i, n), e.load(self.x_sums + 4 * i, vec(F32, n))

    def products(self, chunks: list[Value]) -> Iterator[Sums]:
        """Sums of four products each of codes less their offset; registers of the same groups are one sum."""
        e, quant, size = self.e, self.quant, 4 * self.e.tier.lanes
        offset = quant.offset if sums_short(e) else 0  # which leaves numbers of more bits to be multiplied
        starts = [(i, at) for i in range(4) for at in range(0, 64, size)]
        groups = {
            (i, at): [8 * self.eights[8 * i + (at + j) // 8] // quant.group for j in range(0, size, 4)]
            for i, at in starts
        }
        for lanes, alike in groupby(starts, groups.__getitem__):
            some = list(alike)
            times = [self.times(self.eights[8 * i]) for i, _ in some]
            codes = [e.part(chunks[i], at, size) for i, at in some]
            offsets = [e.const(codes[0].kind, offset * number) for number in times]
            zero, largest = e.const(vec(I32, len(lanes))), quant.largest * max(times)
            planes = []
            for plane in self.planes:
                x = [e.part(plane[i], at, size) for i, at in some]
                start = zero - dots(e, zero, offsets, x, largest) if offset else zero
                planes.append(dots(e, start, codes, x, largest))
            most = max(offset, quant.largest - offset)
            yield Sums(planes, lanes, 4 * 127 * most * sum(times))


def eights(e: Emitter, x: Value, numbers: Sequence[int]) -> Value:
    """These eights of the 256 bytes at `x`, as u8[64]."""
    if all(y == x + 1 for x, y in zip(numbers[::2], numbers[1::2], strict=True)):
        return sixteens(e, x, 256, [8 * number for number in numbers[::2]])
    blocks = sorted({number // 4 for number in numbers})  # of 32 bytes, of which these are some
    loaded = e.join(*(e.load(x + 32 * block, vec(I64, 4)) for block in blocks))
    return e.bits(e.pick(loaded, [4 * blocks.index(number // 4) + number % 4 for number in numbers]), vec(I8, 64))


def stepped(e: Emitter, sums: list[Sums], steps: Value, quant: Stepped) -> list[Sums]:
    """The sums with neighbouring lanes added as far as that is quick, times their groups' steps i8[groups]."""
    while gather(e, sums):
        if sums_short(e) and not gather(e, gathered(e, [replace(one, planes=[]) for one in sums])):
            return gathered(e, sums, lambda groups: steps_at(e, steps, groups, quant.signed))
        sums = gathered(e, sums)
    return [times(e, one, steps, quant) for one in sums]


def times(e: Emitter, sums: Sums, steps: Value, quant: Stepped) -> Sums:
    """The sums times their groups' steps, as one plane where 32 bits are enough."""
    planes = sums.planes
    if len(planes) == 2 and (sums.largest << 8) * quant.largest_step < 1 << 31:
        planes = [(planes[0] << 8) + planes[1]]
    numbers = steps_at(e, steps, sums.groups, quant.signed)
    return replace(sums, planes=[plane * numbers for plane in planes])


def gather(e: Emitter, sums: list[Sums]) -> bool:
    """Whether neighbouring lanes of all of them can be added."""
    return len(sums) % 2 == 0 and all(one.gathers(e) for one in sums)


def gathered(e: Emitter, sums: list[Sums], steps: Callable[[list[int]], Value] | None = None) -> list[Sums]:
    return [x.gathered(e, y, steps) for x, y in zip(sums[::2], sums[1::2], strict=True)]
