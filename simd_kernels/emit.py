"""The words kernels are written in: Python expressions over machine values that write LLVM instructions down.

A kernel is a Python function that runs once per build; what it does to its values becomes the machine code.  Vectors
are written 64 bytes wide on every tier and LLVM splits them for narrower registers.  Only what no plain instruction
expresses well differs by tier, and all of that is in this file: products of bytes, `fma`, the conversions from and to
half floats, lookups, and the pause of a waiting loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

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
        return self.pinned(self._pairs_avx2(total, pairs, steps or self.const(pairs.kind, 1)))

    def multiply(self, total: Value, x: Sequence[Value], w: Sequence[Value], steps: Value | None = None) -> Value:
        """total i32[n] + the sums of 4 products each of activations, raised i8[4n], and weights i8[4n], of several such
        vectors where `in_16_bits` says so; where it says 0, of 2 products each of i16[2n].

        Sums are multiplied by steps i16[2n], for tiers that take these."""
        n = total.lanes
        if self.tier.name == "avx2" and w[0].lanes > 2 * n:
            return self.add_pairs(total, self._sums_avx2(x, w), steps)
        (one,), (weights,) = x, w
        if self.tier.name == "avx2":
            return self.pinned(self._pairs_avx2(total, one, weights))
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
            halves = [[self.part(v, i * v.lanes // 2, v.lanes // 2) for v in (total, codes, x)] for i in range(2)]
            return self.join(*(self.dot(half[0], half[1], half[2], wide) for half in halves))
        if self.centre(wide):
            codes = codes ^ -128
        if self.tier.name in ("avx512vnni", "avxvnni"):
            return self.intrinsic(f"llvm.x86.avx512.vpdpbusd.{32 * n}", total.kind, total, codes, x)
        if self.tier.name == "avx2":
            return self._dot_avx2(total, codes, x, wide)
        if self.tier.name in ("i8mm", "dotprod"):
            name = {"i8mm": "usdot", "dotprod": "sdot"}[self.tier.name]
            return self.intrinsic(f"llvm.aarch64.neon.{name}.v4i32.v16i8", total.kind, total, codes, x)
        if self.tier.name == "neon":
            return self._dot_neon(total, codes, x)
        return self._dot_plain(total, self.widen(codes, vec(I32, 4 * n)), self.widen_signed(x, vec(I32, 4 * n)))

    def dots(self, total: Value, codes: Sequence[Value], x: Sequence[Value], largest: int, smallest: int = 0) -> Value:
        """The `dot` of one after the other, of codes from `smallest` to `largest`."""
        if self.tier.name == "avx2" and 2 * 127 * largest * len(codes) < 1 << 15:
            return self._dots_avx2(total, codes, x)
        if self.tier.name == "avx2" and largest > 127 and smallest > 0:  # sizes of x serve several rows of codes
            for some, part in zip(codes, x, strict=True):
                total = self._dots_avx2(total, [self._size_of(part)], [self._signed(some ^ -128, part)])
            return total
        for some, part in zip(codes, x, strict=True):
            total = self.dot(total, some, part, largest > 127)
        return total

    def sums_fine(self, largest: int) -> bool:
        """Whether `dots_fine` is quicker than two `dots` for codes up to this size."""
        return self.tier.name == "avx2" and largest > 127

    def dots_fine(self, codes: Sequence[Value], x: Sequence[Value], low: Sequence[Value]) -> Value:
        """256 * the `dots` of wide codes with x, + those with low: products of 16 bits.  A lane has four of 32 bytes,
        not four neighbours."""
        n = codes[0].lanes
        if n > 32:
            parts = [[[self.part(v, i, n // 2) for v in some] for some in (codes, x, low)] for i in (0, n // 2)]
            return self.join(*(self.dots_fine(*part) for part in parts))
        total = self.const(vec(I32, n // 4))
        for some, *planes in zip(codes, x, low, strict=True):
            weights, high, rest = (self.widen_signed(v, vec(I16, n)) for v in (some ^ -128, *planes))
            numbers = (high << 8) + rest
            for at in (0, n // 2):
                total = self._pairs_avx2(total, self.part(weights, at, n // 2), self.part(numbers, at, n // 2))
        return total

    def sums_short(self) -> bool:
        """Whether `neighbours` takes sums of 16 bits only."""
        return self.tier.machine == "x86_64"

    def adds_neighbours(self, largest: int) -> bool:
        """Whether this tier has instructions for `neighbours` of numbers up to this size."""
        return self.tier.machine == "aarch64" or (self.tier.machine == "x86_64" and largest < 1 << 15)

    def neighbours(self, x: Value, y: Value, steps: Value | None = None) -> Value:
        """Sums of two neighbouring lanes of `x` and of `y`, i32, of every four lanes those of x, then those of y; where
        sums are short, times `steps`, if any."""
        n = x.lanes
        if n > self.tier.lanes:
            return self._in_halves(self.neighbours, x, y, *([steps] if steps else []))
        if self.tier.machine == "aarch64":
            return self.intrinsic("llvm.aarch64.neon.addp.v4i32", x.kind, x, y)
        pack, add = {
            4: ("sse2.packssdw.128", "sse2.pmadd.wd"),
            8: ("avx2.packssdw", "avx2.pmadd.wd"),
            16: ("avx512.packssdw.512", "avx512.pmaddw.d.512"),
        }[n]
        short = self.intrinsic(f"llvm.x86.{pack}", vec(I16, 2 * n), x, y)
        return self.intrinsic(f"llvm.x86.{add}", x.kind, short, steps or self.const(short.kind, 1))

    def adds_long_neighbours(self) -> bool:
        """Whether there is one instruction for `long_neighbours`, three times as slow as `neighbours`."""
        return self.tier.machine == "x86_64" and self.tier.lanes == 8

    def long_neighbours(self, x: Value, y: Value) -> Value:
        """As `neighbours`, of numbers of 32 bits."""
        n = x.lanes
        if n > self.tier.lanes:
            return self._in_halves(self.long_neighbours, x, y)
        name = {4: "ssse3.phadd.d.128", 8: "avx2.phadd.d"}[n]
        return self.intrinsic(f"llvm.x86.{name}", x.kind, x, y)

    def steps(self, x: Value, lanes: Sequence[int], signed: bool) -> Value:
        """Numbers of x i8[8 or 16] at these lanes, i32; where `neighbours` multiplies short sums by them, i16, each
        twice."""
        size = 2 if self.sums_short() else 4  # bytes of a number
        places = [
            place
            for lane in lanes
            for place in ([-1] * (size - 1) + [lane] if signed else [lane] + [-1] * (size - 1)) * (4 // size)
        ]
        numbers = self.bits(self._bytes_at(x, places), vec(ir.IntType(8 * size), len(places) // size))
        return numbers.signed_shift(8 * (size - 1)) if signed else numbers

    def _bytes_at(self, x: Value, places: Sequence[int]) -> Value:
        """Bytes of x i8[8 or 16] at these places, a register of them at most; zeros at negative ones."""
        x = self.join(*[x] * (max(16, len(places)) // x.lanes))
        if not self.tier.machine:
            return self.pick(x, [place % (2 * x.lanes) for place in places], self.const(x.kind))
        name = {16: "ssse3.pshuf.b.128", 32: "avx2.pshuf.b", 64: "avx512.pshuf.b.512"}[x.lanes]
        name = "aarch64.neon.tbl1.v16i8" if self.tier.machine == "aarch64" else f"x86.{name}"
        return self.intrinsic(f"llvm.{name}", x.kind, x, self.const(x.kind, list(places)))

    def _in_halves(self, f: Callable[..., Value], *vectors: Value) -> Value:
        """What is f of the first halves of these vectors, then what it is of the second ones."""
        sizes = [v.lanes // 2 for v in vectors]
        halves = [[self.part(v, i * n, n) for v, n in zip(vectors, sizes, strict=True)] for i in range(2)]
        return self.join(*(f(*half) for half in halves))

    def _dot_plain(self, total: Value, codes: Value, x: Value) -> Value:
        products = codes * x
        for k in range(4):
            total = total + self.pick(products, range(k, products.lanes, 4))
        return total

    def _dot_avx2(self, total: Value, codes: Value, x: Value, wide: bool) -> Value:
        if wide:  # sizes, at most 128, and numbers with the codes' signs: the sum of two products still fits 16 bits
            x, codes = self._signed(x, codes), self._size_of(codes)
        return self._dots_avx2(total, [codes], [x])

    def _size_of(self, x: Value) -> Value:
        """|x| of bytes, of -128 as well if taken as unsigned."""
        return self.intrinsic(f"llvm.abs.v{x.lanes}i8", x.kind, x, self.const(I1, 0))

    def _signed(self, x: Value, signs: Value) -> Value:
        """x * the signs (-1, 0 or 1) of other bytes."""
        if x.lanes > 32:
            return self._in_halves(self._signed, x, signs)
        name = {16: "ssse3.psign.b.128", 32: "avx2.psign.b"}[x.lanes]
        return self.intrinsic(f"llvm.x86.{name}", x.kind, x, signs)

    def _dots_avx2(self, total: Value, codes: Sequence[Value], x: Sequence[Value]) -> Value:
        """Of codes so small that sums of two products each fit 16 bits, those of all codes added."""
        n = total.lanes
        if n > self.tier.lanes:
            parts = [[[self.part(v, i * 2 * n, 2 * n) for v in vectors] for vectors in (codes, x)] for i in range(2)]
            totals = (self.part(total, i * n // 2, n // 2) for i in range(2))
            return self.join(*(self._dots_avx2(half, *part) for half, part in zip(totals, parts, strict=True)))
        short = self._sums_avx2(codes, x)
        return self._pairs_avx2(total, short, self.const(short.kind, 1))

    def _sums_avx2(self, codes: Sequence[Value], x: Sequence[Value]) -> Value:
        """The sums of 2 products each, those of all codes added: i16."""
        short = self.const(vec(I16, codes[0].lanes // 2))
        pairs = {8: "ssse3.pmadd.ub.sw.128", 16: "avx2.pmadd.ub.sw"}[short.lanes]
        for some, part in zip(codes, x, strict=True):
            short = short + self.intrinsic(f"llvm.x86.{pairs}", short.kind, some, part)
        return short

    def _pairs_avx2(self, total: Value, x: Value, y: Value) -> Value:
        """total i32[n] + the sums of 2 products each of i16[2n]."""
        name = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd"}[total.lanes]
        return total + self.intrinsic(f"llvm.x86.{name}", total.kind, x, y)

    def _dot_neon(self, total: Value, codes: Value, x: Value) -> Value:
        """Of signed codes; the sum of two products fits 16 bits."""
        kind, halves = vec(I16, 8), ([self.part(v, i, 8) for v in (codes, x)] for i in (0, 8))
        low, high = (self.intrinsic("llvm.aarch64.neon.smull.v8i16", kind, *half) for half in halves)
        pairs = self.intrinsic("llvm.aarch64.neon.addp.v8i16", kind, low, high)
        return total + self.intrinsic("llvm.aarch64.neon.saddlp.v4i32.v8i16", total.kind, pairs)
