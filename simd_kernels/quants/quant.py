"""What every quantised type says about itself, and the two kernels that follow from it.

A type only unpacks: bytes of a block become 8-bit codes, and a scale and a minimum for each group of 16 or 32
weights, so that weight = scale * code + minimum.  The dot product with 8-bit activations and the panels of the
matrix multiply are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from llvmlite import ir

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants import few, panels
from edgeinfer.simd_kernels.quants.panels import Group, Rows
from edgeinfer.simd_kernels.quants.streams import AHEAD, side_by_side, streams
from edgeinfer.simd_kernels.values import F32, I1, I8, I16, I32, I64, Value, Var, vec

if TYPE_CHECKING:
    from edgeinfer.simd_kernels.quants.stepped import SteppedPart

WIDE = vec(F32, 16)


@dataclass(frozen=True)
class Codes:
    """Some blocks, unpacked.  Weight i of group g = i // group is scales[g] * code[i] + minimums[g]."""

    chunks: list[Value]  # u8[64] each, or less of a few small blocks; in them sixteens of weights in the type's `order`
    scales: Value  # f32[groups]
    minimums: Value  # f32[groups]


class Weights(NamedTuple):
    """What a type knows of some blocks before it looks at their codes."""

    scales: Value  # f32[groups]
    minimums: Value  # f32[groups], or where the type has an offset the scales
    more: Value | None = None  # the address of what else `factors` wants to know


class Quant:
    """A quantised tensor type.  `load` is all that a type must say."""

    name: str
    block: int  # weights
    bytes: int  # of a block
    group: int = 32  # weights that share a scale: 32 or 16
    largest: int  # code
    smallest: int = 0
    batch: int = 1  # blocks unpacked at once in the main loop
    paired: bool = False  # scales and minimums are unpacked as pairs
    offset: int = 0  # where all minimums are that many scales below zero: weight = scale * (code - offset)

    @property
    def wide(self) -> bool:
        """Whether codes above 127 occur."""
        return self.largest > 127

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        """Unpack so many blocks (1 or `batch`) from address `w`."""
        raise NotImplementedError

    def weights(self, e: Emitter, places: list[Value], blocks: int) -> list[Weights]:
        """Of so many blocks at each of these addresses; where the type is `paired`, f32[2 * groups] twice, in turn a
        scale and a minimum."""
        codes = [self.load(e, place, blocks) for place in places]
        if self.offset:
            return [Weights(c.scales, c.scales) for c in codes]
        return [Weights(c.scales, e.centred(c.minimums, c.scales, self.wide)) for c in codes]

    def factors(self, e: Emitter, w: Value, blocks: int, more: Value | None) -> list[Value]:
        """Chunks to be multiplied: codes."""
        return self.load(e, w, blocks).chunks

    def by_word(self, e: Emitter, w: Value) -> list[Value] | None:
        """What few.by_word makes of the chunks of the span at `w`, where the bytes of the file allow a shorter way."""
        return None

    def order(self, e: Emitter, blocks: int) -> Sequence[int]:
        """Which sixteen weights stand at each 16 codes of the chunks: as it suits the layout."""
        return range(blocks * self.block // 16)

    def turn(self, e: Emitter, blocks: int) -> Sequence[int]:
        """Which group each scale that `weights` finds is of."""
        return range(blocks * self.block // self.group)

    def as_pairs(self, e: Emitter) -> bool:
        """Whether `weights` finds scales and minimums as pairs."""
        return self.paired

    def dot(self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value) -> None:
        """out f32[rows] = rows of weights at `w` times one quantised row of activations (layout in activation.py)."""
        self._dot(e, w, row_bytes, rows, x, cols, out, False)

    def dot_fine(self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value) -> None:
        """As `dot`, of activations in their fine form."""
        self._dot(e, w, row_bytes, rows, x, cols, out, True)

    def few(self, e: Emitter, *places: Value) -> None:
        """As `dot`, of several rows of activations; `places` as few.few has them."""
        few.few(e, self, False, *places)

    def few_fine(self, e: Emitter, *places: Value) -> None:
        """As `few`, of activations in their fine form."""
        few.few(e, self, True, *places)

    def _dot(
        self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value, fine: bool
    ) -> None:
        with side_by_side(e, w, row_bytes, rows, self.streams(e)) as (first, apart, count):
            sums = RowSums(e, self.streams(e), vec(F32, self.sum_lanes(e)), apart * row_bytes, count)
            for k, blocks, again in self._parts(e, cols):
                part, at = self.part(e, x, cols, fine, k, blocks, again), w + first * row_bytes + self._offset(k)
                for some, totals in sums.abreast():
                    part.add([at + row for row in some], totals)
            sums.write(out + first * 4, apart * 4)

    def part(
        self, e: Emitter, x: Value, cols: Value, fine: bool, k: Value, blocks: int, again: Value | None
    ) -> Part | SteppedPart:
        """What `dot` does with so many blocks of rows, from column `k` on."""
        return Part(e, self, x, cols, fine, k, blocks, again)

    def streams(self, e: Emitter) -> int:
        """How many rows `dot` reads side by side."""
        return streams(e)

    def sum_lanes(self, e: Emitter) -> int:
        """In how many lanes `part` sums a row."""
        return 16

    def panel(self, e: Emitter, *places: Value) -> None:
        """Rows of weights as columns of a panel; `places` as panels.of_words has them."""
        make = panels.of_rows if type(self).groups is Quant.groups else panels.of_words
        make(e, self, *places)

    def groups(self, e: Emitter, rows: Rows) -> Iterator[Group]:
        """The groups of one block of each of these rows, of types that are made panels by words."""
        raise NotImplementedError

    def steps(self, e: Emitter, w: Value) -> tuple[Value, Value]:
        """The scales of a block at `w` as whole numbers i32[groups] times f32[groups], of types where they are that and
        which are made panels by rows."""
        raise NotImplementedError

    def unpack(self, e: Emitter, w: Value, cols: Value, codes: Value, scales: Value, minimums: Value) -> None:
        """codes i8[cols], scales and minimums f32[cols / group] of one row's `cols` weights at `w`.

        Types with an offset get codes less their offset, and minimums of zero."""
        for start, stop, blocks in self._batches(cols):
            with e.loop(start, stop, blocks * self.block) as k:
                at = w + self._offset(k)
                unpacked = self.load(e, at, blocks)
                order = iter(self.order(e, blocks))
                for chunk in (chunk - self.offset for chunk in unpacked.chunks):
                    for sixteen in range(0, chunk.lanes, 16):
                        e.store(e.part(chunk, sixteen, 16), codes + (k + 16 * next(order)))
                first = k >> {32: 3, 16: 2}[self.group]  # 4 bytes for each group
                e.store(unpacked.scales, scales + first)
                e.store(e.const(unpacked.minimums.kind) if self.offset else unpacked.minimums, minimums + first)

    def _parts(self, e: Emitter, cols: Value) -> Iterator[tuple[Value, int, Value | None]]:
        """Loops over a row: (first column, blocks from there on, how many columns of these were in the part before).
        What is left of the row by `batch` goes by half as many, the last of which end with the row."""
        size, half = self.block * self.batch, self.block * (self.batch // 2)
        whole = cols & -size
        with e.loop(0, whole, size) as k:
            yield k, self.batch, None
        if half:
            with e.when(cols >= half), e.loop(whole, cols, half) as k:
                first = e.least(k, cols - half)
                yield first, self.batch // 2, k - first
            with e.when(cols < half), e.loop(0, cols, self.block) as k:
                yield k, 1, None

    def _batches(self, cols: Value) -> Iterator[tuple[Value | int, Value, int]]:
        """(first column, last, blocks at a time): by `batch`, then what is left by fewer, down to one."""
        start: Value | int = 0
        blocks = self.batch
        while blocks:
            stop = cols & -(self.block * blocks)
            yield start, stop, blocks
            start, blocks = stop, blocks // 4 or blocks // 2

    def _offset(self, k: Value) -> Value:
        """Bytes from a row's beginning to its column `k`."""
        return (k >> (self.block.bit_length() - 1)) * self.bytes


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
        self.vars = [e.var(kind) for _ in range(self.rows if e.tier.sums_held else 0)]
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


def prefetch(e: Emitter, places: list[Value], size: int) -> None:
    """Ask for so many bytes of rows that are read at these places."""
    for place in places:
        for line in range(0, size, 64):
            e.prefetch(place + (AHEAD + line))


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
            if len(x) > 1 and e.sums_fine(self.quant.largest) and alone:
                planes = [e.dots_fine(codes, *x)]
            else:
                planes = [e.dots(zero, codes, plane, self.quant.largest, self.quant.smallest) for plane in x]
            yield Sums(planes, groups, 4 * 127 * self.quant.largest * len(starts))


@dataclass(frozen=True)
class Sums:
    """Of each plane, i32[lanes], the group each lane is of, and the largest number there can be."""

    planes: list[Value]
    groups: list[int]
    largest: int

    def gathers(self, e: Emitter, eight: bool = False) -> bool:
        """Where `eight` are left in the end, even a slow instruction saves time."""
        adds = e.adds_neighbours(self.largest) or (eight and e.adds_long_neighbours())
        return self.groups[::2] == self.groups[1::2] and adds

    def gathered(self, e: Emitter, other: Sums, steps: Callable[[list[int]], Value] | None = None) -> Sums:
        """Neighbouring lanes of both added, times their groups' `steps` if any."""
        fours = [(self.groups[i : i + 4 : 2], other.groups[i : i + 4 : 2]) for i in range(0, len(self.groups), 4)]
        groups = [group for x, y in fours for group in (*x, *y)]
        numbers = steps(groups) if steps else None
        both, largest = list(zip(self.planes, other.planes, strict=True)), max(self.largest, other.largest)
        if e.adds_neighbours(largest):
            planes = [e.neighbours(x, y, numbers) for x, y in both]
        else:
            planes = [e.long_neighbours(x, y) for x, y in both]
        return Sums(planes, groups, self.largest + largest)

    def narrowed(self, e: Emitter, eight: bool) -> Sums:
        """Where lanes fill several registers, those of one half are added to neighbours until 8 are left."""
        if len(self.groups) <= max(8, e.tier.lanes) or not self.gathers(e, eight):
            return self
        n = len(self.groups) // 2
        halves = (Sums([e.part(p, i, n) for p in self.planes], self.groups[i : i + n], self.largest) for i in (0, n))
        return next(halves).gathered(e, next(halves)).narrowed(e, eight)


def words(e: Emitter, w: Value, size: int, places: Sequence[int], kind: ir.IntType) -> Value:
    """kind[places] of the words at these places (in bytes) of the `size` bytes at `w`.

    Loaded one by one each would take a shuffle; picked from whole vectors only each vector takes one."""
    step, last = kind.width // 8, size - 64
    loads = blends(size, tuple(places), step) if e.tier.lanes == 8 and len(places) == 8 else ()
    if 0 < len(loads) < len(places):
        whole, at = blended(e, w, loads)
        return e.pick(e.bits(whole, vec(kind, 32 // step)), [at[place] // step for place in places])
    if e.tier.lanes < 16 or last < step:
        return e.join(*(e.load(w + place, vec(kind, 1)) for place in places))
    count = 64 // step
    found: Value | None = None
    lanes: dict[int, int] = {}  # of what is found, by place
    left = sorted(places)
    while left:
        start = min(left[0], last - (last - left[0]) % step)
        inside = {
            place: (place - start) // step
            for place in left
            if place + step <= start + 64 and not (place - start) % step
        }
        left = [place for place in left if place not in inside]
        loaded = e.load(w + start, vec(kind, count))
        if found is None:
            found, lanes = loaded, inside
        else:
            lanes |= {place: count + lane for place, lane in inside.items()}
            picked = [lanes.get(place, 0) for place in places] + [0] * (count - len(places))
            found, lanes = e.pick(found, picked, loaded), {p: i for i, p in enumerate(places) if p in lanes}
    assert found
    return e.pick(found, [lanes[place] for place in places])


@lru_cache
def blends(size: int, places: tuple[int, ...], step: int) -> tuple[tuple[int, dict[int, int]], ...]:
    """Loads of 32 bytes of the `size` that there are, such that the words of `step` bytes at these 8 places are in
    lanes (of 32 bits) of their own, as few as are found: where each begins, and its places by lane.  None where there
    is no way.  Of words of 16 bits those in the low four lanes are low halves, the others high ones: a blend joins
    them."""
    left, loads, taken = list(places), [], set[int]()

    def inside(at: int) -> dict[int, int]:
        found: dict[int, int] = {}
        for place in left:
            byte = place - at
            fits = byte % step == 0 and (step != 2 or byte % 4 // 2 == byte // 16)
            if 0 <= byte <= 32 - step and fits and byte // 4 not in taken | set(found):
                found[byte // 4] = place
        return found

    while left:
        starts = range(max(0, left[0] - 31), min(left[0], size - 32) + 1)
        tried = [(at, found) for at in starts if left[0] in (found := inside(at)).values()]
        if not tried:
            return ()
        at, found = max(tried, key=lambda one: (len(one[1]), one[0]))
        loads.append((at, found))
        taken |= set(found)
        left = [place for place in left if place not in found.values()]
    return tuple(loads)


def blended(e: Emitter, w: Value, loads: Sequence[tuple[int, dict[int, int]]]) -> tuple[Value, dict[int, int]]:
    """What `blends` finds, i32[8], and at which byte of it the words of each place are.  A blend is one instruction
    with its load, and on any port."""
    found, at = e.const(vec(I32, 8)), dict[int, int]()
    for start, lanes in loads:
        found = e.pick(found, [8 + lane if lane in lanes else lane for lane in range(8)], e.load(w + start, found.kind))
        at |= {place: 4 * lane + (place - start) % 4 for lane, place in lanes.items()}
    return found, at


def sixteens(e: Emitter, w: Value, size: int, places: Sequence[int]) -> Value:
    """16 bytes at each of these places of the `size` bytes at `w`, behind each other."""
    if e.tier.lanes < 16 or len(places) < 4 or size < 64 or any(place % 2 for place in places):
        return e.join(*(e.load(w + place, vec(I8, 16)) for place in places))
    each = [place + word for place in places for word in range(0, 16, 4)]
    return e.bits(words(e, w, size, each, I32), vec(I8, 64))


def halves(e: Emitter, w: Value, stride: int, n: int) -> Value:
    """f32[n] of the half floats at w, w + stride, ..."""
    return e.half_to_float(words(e, w, n * stride, range(0, n * stride, stride), I16))


def half(e: Emitter, address: Value, lanes: int) -> Value:
    """The half float at `address` in every one of so many lanes."""
    return e.pick(e.half_to_float(e.load(address, vec(I16, 1))), [0] * lanes)


def packed(e: Emitter, address: Value, n: int) -> Value:
    """i32[n] of so many nibbles, 8 or 16, the low one of a byte first."""
    words = e.load(address, vec(I32, n // 8))
    return (e.pick(words, [k // 8 for k in range(n)]) >> e.const(vec(I32, n), [4 * (k % 8) for k in range(n)])) & 15


def twice(e: Emitter, x: Value) -> Value:
    """`x` behind itself."""
    return e.join(x, x)
