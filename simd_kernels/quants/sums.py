"""Sums of products of one row, as lanes of integers, and how neighbours become one, by what each tier does best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from llvmlite import ir

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.values import I16, I32, Value, vec


@dataclass(frozen=True)
class Sums:
    """Of each plane, i32[lanes], the group each lane is of, and the largest number there can be."""

    planes: list[Value]
    groups: list[int]
    largest: int

    def gathers(self, e: Emitter, eight: bool = False) -> bool:
        """Where `eight` are left in the end, even a slow instruction saves time."""
        adds = adds_neighbours(e, self.largest) or (eight and adds_long_neighbours(e))
        return self.groups[::2] == self.groups[1::2] and adds

    def gathered(self, e: Emitter, other: Sums, steps: Callable[[list[int]], Value] | None = None) -> Sums:
        """Neighbouring lanes of both added, times their groups' `steps` if any."""
        fours = [(self.groups[i : i + 4 : 2], other.groups[i : i + 4 : 2]) for i in range(0, len(self.groups), 4)]
        groups = [group for x, y in fours for group in (*x, *y)]
        numbers = steps(groups) if steps else None
        both, largest = list(zip(self.planes, other.planes, strict=True)), max(self.largest, other.largest)
        if adds_neighbours(e, largest):
            planes = [neighbours(e, x, y, numbers) for x, y in both]
        else:
            planes = [long_neighbours(e, x, y) for x, y in both]
        return Sums(planes, groups, self.largest + largest)

    def narrowed(self, e: Emitter, eight: bool) -> Sums:
        """Where lanes fill several registers, those of one half are added to neighbours until 8 are left."""
        if len(self.groups) <= max(8, e.tier.lanes) or not self.gathers(e, eight):
            return self
        n = len(self.groups) // 2
        halves = (Sums([e.part(p, i, n) for p in self.planes], self.groups[i : i + n], self.largest) for i in (0, n))
        return next(halves).gathered(e, next(halves)).narrowed(e, eight)


def dots(
    e: Emitter, total: Value, codes: Sequence[Value], x: Sequence[Value], largest: int, smallest: int = 0
) -> Value:
    """The `dot` of one after the other, of codes from `smallest` to `largest`."""
    if e.tier.name == "avx2" and 2 * 127 * largest * len(codes) < 1 << 15:
        return e.dots_short(total, codes, x)
    if e.tier.name == "avx2" and largest > 127 and smallest > 0:  # sizes of x serve several rows of codes
        for some, part in zip(codes, x, strict=True):
            total = e.dots_short(total, [e.size_of(part)], [e.signed(some ^ -128, part)])
        return total
    for some, part in zip(codes, x, strict=True):
        total = e.dot(total, some, part, largest > 127)
    return total


def sums_fine(e: Emitter, largest: int) -> bool:
    """Whether `dots_fine` is quicker than two `dots` for codes up to this size."""
    return e.tier.name == "avx2" and largest > 127


def dots_fine(e: Emitter, codes: Sequence[Value], x: Sequence[Value], low: Sequence[Value]) -> Value:
    """256 * the `dots` of wide codes with x, + those with low: products of 16 bits.  A lane has four of 32 bytes,
    not four neighbours."""
    n = codes[0].lanes
    if n > 32:
        k = len(codes)
        return e.in_halves(lambda *v: dots_fine(e, v[:k], v[k : 2 * k], v[2 * k :]), *codes, *x, *low)
    total = e.const(vec(I32, n // 4))
    for some, *planes in zip(codes, x, low, strict=True):
        weights, high, rest = (e.widen_signed(v, vec(I16, n)) for v in (some ^ -128, *planes))
        numbers = (high << 8) + rest
        for at in (0, n // 2):
            total = e.pairs_added(total, e.part(weights, at, n // 2), e.part(numbers, at, n // 2))
    return total


def sums_short(e: Emitter) -> bool:
    """Whether `neighbours` takes sums of 16 bits only."""
    return e.tier.machine == "x86_64"


def adds_neighbours(e: Emitter, largest: int) -> bool:
    """Whether this tier has instructions for `neighbours` of numbers up to this size."""
    return e.tier.machine == "aarch64" or (e.tier.machine == "x86_64" and largest < 1 << 15)


def neighbours(e: Emitter, x: Value, y: Value, steps: Value | None = None) -> Value:
    """Sums of two neighbouring lanes of `x` and of `y`, i32, of every four lanes those of x, then those of y; where
    sums are short, times `steps`, if any."""
    n = x.lanes
    if n > e.tier.lanes:
        return e.in_halves(partial(neighbours, e), x, y, *([steps] if steps else []))
    if e.tier.machine == "aarch64":
        return e.intrinsic("llvm.aarch64.neon.addp.v4i32", x.kind, x, y)
    pack, add = {
        4: ("sse2.packssdw.128", "sse2.pmadd.wd"),
        8: ("avx2.packssdw", "avx2.pmadd.wd"),
        16: ("avx512.packssdw.512", "avx512.pmaddw.d.512"),
    }[n]
    short = e.intrinsic(f"llvm.x86.{pack}", vec(I16, 2 * n), x, y)
    return e.intrinsic(f"llvm.x86.{add}", x.kind, short, steps or e.const(short.kind, 1))


def adds_long_neighbours(e: Emitter) -> bool:
    """Whether there is one instruction for `long_neighbours`, three times as slow as `neighbours`."""
    return e.tier.machine == "x86_64" and e.tier.lanes == 8


def long_neighbours(e: Emitter, x: Value, y: Value) -> Value:
    """As `neighbours`, of numbers of 32 bits."""
    n = x.lanes
    if n > e.tier.lanes:
        return e.in_halves(partial(long_neighbours, e), x, y)
    name = {4: "ssse3.phadd.d.128", 8: "avx2.phadd.d"}[n]
    return e.intrinsic(f"llvm.x86.{name}", x.kind, x, y)


def steps_at(e: Emitter, x: Value, lanes: Sequence[int], signed: bool) -> Value:
    """Numbers of x i8[8 or 16] at these lanes, i32; where `neighbours` multiplies short sums by them, i16, each
    twice."""
    size = 2 if sums_short(e) else 4  # bytes of a number
    places = [
        place
        for lane in lanes
        for place in ([-1] * (size - 1) + [lane] if signed else [lane] + [-1] * (size - 1)) * (4 // size)
    ]
    numbers = e.bits(_bytes_at(e, x, places), vec(ir.IntType(8 * size), len(places) // size))
    return numbers.signed_shift(8 * (size - 1)) if signed else numbers


def _bytes_at(e: Emitter, x: Value, places: Sequence[int]) -> Value:
    """Bytes of x i8[8 or 16] at these places, a register of them at most; zeros at negative ones."""
    x = e.join(*[x] * (max(16, len(places)) // x.lanes))
    if not e.tier.machine:
        return e.pick(x, [place % (2 * x.lanes) for place in places], e.const(x.kind))
    name = {16: "ssse3.pshuf.b.128", 32: "avx2.pshuf.b", 64: "avx512.pshuf.b.512"}[x.lanes]
    name = "aarch64.neon.tbl1.v16i8" if e.tier.machine == "aarch64" else f"x86.{name}"
    return e.intrinsic(f"llvm.{name}", x.kind, x, e.const(x.kind, list(places)))
