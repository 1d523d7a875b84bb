"""The words kernels are written in: Python expressions over machine values that write LLVM instructions down.

A kernel is a Python function that runs once per build; what it does to its values becomes the machine code.  Vectors
are written 64 bytes wide on every tier and LLVM splits them for narrower registers.  Only what no plain instruction
expresses well differs by tier: products of bytes, `fma`, the conversions from and to half floats, lookups, and the
pause of a waiting loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from llvmlite import ir

from edgeinfer.simd_kernels.cpu import Tier
from edgeinfer.simd_kernels.instructions import ROUND, Instructions
from edgeinfer.simd_kernels.values import F16, F32, I1, I8, I16, I32, I64, VOID, Value, vec

SIGNED = ("avx2", "dotprod", "neon")  # tiers whose multiplications of bytes take wide codes as signed


class Emitter(Instructions):
    """The instructions of one function on a tier."""

    def __init__(self, builder: ir.IRBuilder, tier: Tier) -> None:
        super().__init__(builder)
        self.tier = tier

    # Waiting and time

    def pause(self) -> None:
        """Tell the core that this loop only waits."""
        if self.tier.machine == "x86_64":
            self._call("llvm.x86.sse2.pause", VOID, [])
        if self.tier.machine == "aarch64":  # some 10 ns; yield, which is meant for this, does nothing on most cores
            self._call("llvm.aarch64.isb", VOID, [ir.Constant(I32, 15)])

    def ticks(self) -> Value:
        """The clock of the machine, in units of its own; 0 where a program may not read one."""
        if self.tier.machine == "x86_64":
            return self.intrinsic("llvm.readcyclecounter", I64)
        if self.tier.machine == "aarch64":
            name, module = "llvm.read_volatile_register.i64", self.b.module  # assembly is not taken for other machines
            kind = ir.FunctionType(I64, [ir.MetaDataType()])
            read = module.globals.get(name) or ir.Function(module, kind, name)
            return Value(self, self.b.call(read, [module.add_metadata(["cntvct_el0"])]))
        return self.const(I64, 0)

    # Lanes

    def spread(self, address: Value, count: int, kind: ir.Type, lanes: int) -> Iterator[Value]:
        """Each of `count` 32-bit numbers of memory in every lane of a vector, loaded as they are asked for.  ARM's
        instructions take them from lanes."""
        for i in range(count):
            if self.tier.machine != "aarch64":
                yield self.splat(self.load(address + 4 * i, kind), lanes)
            else:
                if i % 4 == 0:
                    four = self.load(address + 4 * i, vec(kind, 4))
                yield self.pick(four, [i % 4] * lanes)

    def lookup(self, table: Sequence[int], x: Value) -> Value:
        """table[number] for each of the numbers x u8[16 or more], 0 to 15."""
        widest = 4 * self.tier.lanes
        if x.lanes > widest:
            return self.join(*(self.lookup(table, self.part(x, i, widest)) for i in range(0, x.lanes, widest)))
        entries = self.const(x.kind, list(table) * (x.lanes // 16))
        if self.tier.machine == "aarch64":
            return self.intrinsic("llvm.aarch64.neon.tbl1.v16i8", x.kind, entries, x)
        if self.tier.machine == "x86_64":
            name = {16: "ssse3.pshuf.b.128", 32: "avx2.pshuf.b", 64: "avx512.pshuf.b.512"}[x.lanes]
            return self.intrinsic(f"llvm.x86.{name}", x.kind, entries, x)
        out = self.const(x.kind)
        for number, entry in enumerate(table):
            out = self.select(x.equals(number), self.const(x.kind, entry), out)
        return out

    def interwoven(self, rows: Sequence[Value]) -> Value:
        """Bytes of 1, 2 or 4 vectors of numbers i32[n] within a byte, 4 of each row in turn: i8[rows * n]."""
        n = rows[0].lanes
        if n > self.tier.lanes and self.tier.machine == "x86_64":
            halves = [[self.part(row, at, n // 2) for row in rows] for at in (0, n // 2)]
            return self.join(*(self.interwoven(half) for half in halves))
        if len(rows) == 1:
            return self.narrow(rows[0], vec(I8, n))
        if self.tier.machine != "x86_64":
            words = self.bits(self.narrow(self.join(*rows), vec(I8, len(rows) * n)), vec(I32, len(rows) * n // 4))
            mixed = self.pick(words, [at + row for at in range(n // 4) for row in range(0, words.lanes, n // 4)])
            return self.bits(mixed, vec(I8, len(rows) * n))
        names = {4: ("sse2.packssdw.128", "sse2.packsswb.128"), 8: ("avx2.packssdw", "avx2.packsswb")}
        to_words, to_bytes = names.get(n, ("avx512.packssdw.512", "avx512.packsswb.512"))
        pairs = [
            self.intrinsic(f"llvm.x86.{to_words}", vec(I16, 2 * n), x, y)
            for x, y in zip(rows[::2], rows[1::2], strict=True)
        ]
        if len(pairs) == 1:
            return self.narrow(pairs[0], vec(I8, 2 * n))
        return self.intrinsic(f"llvm.x86.{to_bytes}", vec(I8, 4 * n), *pairs)

    def flags(self, x: Value) -> Value:
        """The mask with a lane for each bit of an integer or of a vector of them, lowest first."""
        n = x.lanes * x.kind.element.width if isinstance(x.kind, ir.VectorType) else x.kind.width
        if self.tier.name == "avx512vnni":
            return self.bits(x, vec(I1, n))
        spread = self.pick(self.bits(x, vec(I8, n // 8)), [i // 8 for i in range(n)])
        return (spread & self.const(spread.kind, [1 << i % 8 for i in range(n)])).equals(0) ^ -1

    def raised_where(self, mask: Value, x: Value, number: int) -> Value:
        """x + number in the lanes where `mask` is set, for bytes that do not have that bit."""
        if self.tier.name != "avx512vnni":
            return x | self.widen_signed(mask, x.kind) & number
        # There is an addition under a mask for bytes, but no `or`, which is what LLVM makes of one it sees through.
        hidden = ir.InlineAsm(ir.FunctionType(x.kind, [x.kind]), "", "=v,0")
        some = Value(self, self.b.call(hidden, [self.const(x.kind, number).raw], attrs=("readnone", "nounwind")))
        return self.select(mask, x + some, x)

    # Half floats

    def half_to_float(self, x: Value) -> Value:
        """Half floats (as i16 lanes) as floats."""
        n = x.lanes
        if self.tier.name != "portable":
            return Value(self, self.b.fpext(self.bits(x, vec(F16, n)).raw, vec(F32, n)))
        # Exponent and mantissa moved into a float's place are the number times 2**-112; subnormals come out right as
        # well.
        wide = self.widen(x, vec(I32, n))
        size = (wide & 0x7FFF) << 13
        number = self.bits(self.bits(size, vec(F32, n)) * 2.0**112, wide.kind)
        bits = self.select(size >= 0x7C00 << 13, number | 0x7F800000, number)
        return self.bits(bits | ((wide & 0x8000) << 16), vec(F32, n))

    def float_to_half(self, x: Value) -> Value:
        """Floats as half floats (i16 lanes), rounded to nearest even."""
        n = x.lanes
        if self.tier.name != "portable":
            return self.bits(Value(self, self.b.fptrunc(x.raw, vec(F16, n))), vec(I16, n))
        bits = self.bits(x, vec(I32, n))
        size = bits & 0x7FFFFFFF
        normal = (size + (0xFFF - (112 << 23)) + ((size >> 13) & 1)) >> 13
        # Adding 0.5 moves a subnormal half's bits to the end of the mantissa, rounded by the addition itself.
        tiny = self.bits(self.bits(size, x.kind) + 0.5, bits.kind) - 0x3F000000
        out = self.select(size < 113 << 23, tiny, normal)
        out = self.select(size >= 0x477FF000, self.const(bits.kind, 0x7C00), out)
        out = self.select(size > 0x7F800000, self.const(bits.kind, 0x7E00), out)
        return self.narrow(out | ((bits >> 16) & 0x8000), vec(I16, n))

    # Arithmetic

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x * y + z, with one rounding where the tier has the instruction."""
        if self.tier.name == "portable":
            return x * y + z
        name = f"llvm.fma.v{x.lanes}f32" if isinstance(x.kind, ir.VectorType) else "llvm.fma.f32"
        return self.intrinsic(name, x.kind, x, y, z)

    def exp(self, x: Value) -> Value:
        """e ** x to 2 units in the last place for x in -87..88; smaller x give 0, larger the value at 88, NaN stays
        NaN.

        Range reduction by powers of two (Cody and Waite, Software Manual for the Elementary Functions) and a
        polynomial of degree 6, fitted to the least largest relative error over +-ln(2)/2."""
        bounded = self.select(x > 88.0, self.const(x.kind, 88.0), x)
        bounded = self.select(bounded < -87.0, self.const(x.kind, -87.0), bounded)
        moved = bounded * 1.4426950408889634 + ROUND  # the low bits are those of the power
        power = moved - ROUND
        rest = self.fma(power, self.const(x.kind, -0.693359375), bounded)
        rest = self.fma(power, self.const(x.kind, 2.12194440e-4), rest)
        series = self.const(x.kind, 0.001381454011)
        for term in (0.008368745358, 0.0416683908, 0.166665204, 0.4999999343, 1.0, 1.0):
            series = self.fma(series, rest, self.const(x.kind, term))
        scale = self.bits((self.bits(moved, vec(I32, x.lanes)) + 127) << 23, x.kind)
        return self.select(x <= -87.0, self.const(x.kind, 0.0), series * scale)

    # Products of bytes

    def raised(self) -> int:
        """What tiles of activations have added to every code: x86 multiplies unsigned bytes by signed ones."""
        return 128 if self.tier.machine == "x86_64" else 0

    def in_16_bits(self, largest: int) -> int:
        """How often `multiply` can add two products of weights up to this size before 16 bits are too few for the sum:
        0 where weights must have 16 bits themselves; 1 on tiers whose instructions sum in 32 bits."""
        return (2**15 - 1) // (2 * 255 * largest) if self.tier.name == "avx2" else 1

    def multiply_pairs(self, total: Value, x: Value, w: Value) -> Value:
        """total i16[2n] + the sums of 2 products each of what `multiply` takes, where 16 bits are enough."""
        return self.pinned(total + self.intrinsic("llvm.x86.avx2.pmadd.ub.sw", total.kind, x, w))

    def takes_steps(self) -> bool:
        """Whether sums are multiplied on their way from 16 bits to 32: by `steps`, which otherwise are 1."""
        return self.tier.name == "avx2"

    def add_pairs(self, total: Value, pairs: Value, steps: Value | None = None) -> Value:
        """total i32[n] + the sums of 2 neighbours each of i16[2n], times steps i16[2n]."""
        return self.pinned(self.pairs_added(total, pairs, steps or self.const(pairs.kind, 1)))

    def multiply(self, total: Value, x: Sequence[Value], w: Sequence[Value], steps: Value | None = None) -> Value:
        """total i32[n] + the sums of 4 products each of activations, raised i8[4n], and weights i8[4n], of several such
        vectors where `in_16_bits` says so; where it says 0, of 2 products each of i16[2n].

        Sums are multiplied by steps i16[2n], for tiers that take these."""
        n = total.lanes
        if self.tier.name == "avx2" and w[0].lanes > 2 * n:
            return self.add_pairs(total, self.pair_sums(x, w), steps)
        (one,), (weights,) = x, w
        if self.tier.name == "avx2":
            return self.pinned(self.pairs_added(total, one, weights))
        if self.tier.name == "avx512vnni":
            return self.intrinsic("llvm.x86.avx512.vpdpbusd.512", total.kind, total, one, weights)
        if self.tier.name == "avxvnni":
            return self.pinned(self.intrinsic("llvm.x86.avx512.vpdpbusd.256", total.kind, total, one, weights))
        if self.tier.name in ("i8mm", "dotprod"):
            return self.intrinsic("llvm.aarch64.neon.sdot.v4i32.v16i8", total.kind, total, weights, one)
        if self.tier.name == "neon":
            return self._dot_neon(total, weights, one)
        kind = vec(I32, 4 * n)
        return self._dot_plain(total, self.widen_signed(weights, kind), self.widen_signed(one, kind))

    def pinned(self, x: Value) -> Value:
        """`x`, computed here and not later: LLVM sees an instruction that it cannot move, of no bytes."""
        nothing = ir.InlineAsm(ir.FunctionType(x.kind, [x.kind]), "", "=x,0", side_effect=True)
        return Value(self, self.b.call(nothing, [x.raw]))

    def scaled(self, sums: Value, scales: Value, lifts: Value) -> Value:
        """(sums - the bits of ROUND) * scales for sums i32 below 2**22 in size and lifts = -ROUND * scales, both
        exact: near ROUND, integers are the bits of floats as many above it."""
        numbers = self.bits(sums, scales.kind)
        if not self.tier.machine:  # no instruction that rounds only once
            return (numbers - ROUND) * scales
        return self.fma(numbers, scales, lifts)

    def centre(self, wide: bool) -> int:
        """What `dot` takes off every wide code."""
        return 128 if wide and self.tier.name in SIGNED else 0

    def centred(self, minimums: Value, scales: Value, wide: bool) -> Value:
        """The minimums to use where `dot` has summed codes less their centre."""
        if not self.centre(wide):
            return minimums
        return self.fma(scales, self.const(scales.kind, self.centre(wide)), minimums)

    def dot(self, total: Value, codes: Value, x: Value, wide: bool) -> Value:
        """total i32[n] + the sums of 4 products each of codes u8[4n], less their `centre`, and x i8[4n], -127 or above.

        `wide`: codes may exceed 127 (else a tier may use an instruction that saturates above that)."""
        n = total.lanes
        if n > self.tier.lanes:
            return self.in_halves(partial(self.dot, wide=wide), total, codes, x)
        if self.centre(wide):
            codes = codes ^ -128
        if self.tier.name in ("avx512vnni", "avxvnni"):
            return self.intrinsic(f"llvm.x86.avx512.vpdpbusd.{32 * n}", total.kind, total, codes, x)
        if self.tier.name == "avx2":
            if wide:  # sizes, at most 128, and numbers with the codes' signs: sums of two products still fit 16 bits
                x, codes = self.signed(x, codes), self.size_of(codes)
            return self.dots_short(total, [codes], [x])
        if self.tier.name in ("i8mm", "dotprod"):
            name = {"i8mm": "usdot", "dotprod": "sdot"}[self.tier.name]
            return self.intrinsic(f"llvm.aarch64.neon.{name}.v4i32.v16i8", total.kind, total, codes, x)
        if self.tier.name == "neon":
            return self._dot_neon(total, codes, x)
        return self._dot_plain(total, self.widen(codes, vec(I32, 4 * n)), self.widen_signed(x, vec(I32, 4 * n)))

    def _dot_plain(self, total: Value, codes: Value, x: Value) -> Value:
        products = codes * x
        for k in range(4):
            total = total + self.pick(products, range(k, products.lanes, 4))
        return total

    def _dot_neon(self, total: Value, codes: Value, x: Value) -> Value:
        """Of signed codes; the sum of two products fits 16 bits."""
        kind, halves = vec(I16, 8), ([self.part(v, i, 8) for v in (codes, x)] for i in (0, 8))
        low, high = (self.intrinsic("llvm.aarch64.neon.smull.v8i16", kind, *half) for half in halves)
        pairs = self.intrinsic("llvm.aarch64.neon.addp.v8i16", kind, low, high)
        return total + self.intrinsic("llvm.aarch64.neon.saddlp.v4i32.v8i16", total.kind, pairs)

    # Products of bytes on AVX2, whose instructions sum two of them in 16 bits

    def size_of(self, x: Value) -> Value:
        """|x| of bytes, of -128 as well if taken as unsigned."""
        return self.intrinsic(f"llvm.abs.v{x.lanes}i8", x.kind, x, self.const(I1, 0))

    def signed(self, x: Value, signs: Value) -> Value:
        """x * the signs (-1, 0 or 1) of other bytes."""
        if x.lanes > 32:
            return self.in_halves(self.signed, x, signs)
        name = {16: "ssse3.psign.b.128", 32: "avx2.psign.b"}[x.lanes]
        return self.intrinsic(f"llvm.x86.{name}", x.kind, x, signs)

    def dots_short(self, total: Value, codes: Sequence[Value], x: Sequence[Value]) -> Value:
        """Of codes so small that sums of two products each fit 16 bits, those of all codes added."""
        n = total.lanes
        if n > self.tier.lanes:
            count = len(codes)
            return self.in_halves(lambda half, *v: self.dots_short(half, v[:count], v[count:]), total, *codes, *x)
        short = self.pair_sums(codes, x)
        return self.pairs_added(total, short, self.const(short.kind, 1))

    def pair_sums(self, codes: Sequence[Value], x: Sequence[Value]) -> Value:
        """The sums of 2 products each, those of all codes added: i16."""
        short = self.const(vec(I16, codes[0].lanes // 2))
        pairs = {8: "ssse3.pmadd.ub.sw.128", 16: "avx2.pmadd.ub.sw"}[short.lanes]
        for some, part in zip(codes, x, strict=True):
            short = short + self.intrinsic(f"llvm.x86.{pairs}", short.kind, some, part)
        return short

    def pairs_added(self, total: Value, x: Value, y: Value) -> Value:
        """total i32[n] + the sums of 2 products each of i16[2n]."""
        name = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd"}[total.lanes]
        return total + self.intrinsic(f"llvm.x86.{name}", total.kind, x, y)
