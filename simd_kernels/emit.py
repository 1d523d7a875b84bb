"""The words kernels are written in: Python expressions over machine values that write LLVM instructions down.

A kernel is a Python function that runs once per build; what it does to its values becomes the machine code.  Vectors
are written 64 bytes wide on every tier and LLVM splits them for narrower registers.  Only what no plain instruction
expresses well differs by tier, and all of that is in this file: `dot`, `fma`, the conversions from and to half
floats, and the pause of a waiting loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from edgeinfer.simd_kernels.cpu import Tier

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F16, F32, F64, VOID = ir.HalfType(), ir.FloatType(), ir.DoubleType(), ir.VoidType()
Number = int | float
SIGNED = ("dotprod", "neon")  # tiers whose multiplications of bytes take both as signed
ROUND = 1.5 * 2.0**23  # at this size a float's last bit is worth one, so that adding it rounds to whole numbers


def vec(kind: ir.Type, lanes: int) -> ir.VectorType:
    """The type of `lanes` values of `kind`."""
    return ir.VectorType(kind, lanes)


class Value:
    """A machine value: an integer, a float or a vector of them.  Operators act lane by lane; Python numbers become
    constants.

    Integers wrap around; `>>` shifts in zeros; comparisons are signed and give a mask for `select` and `when`."""

    __slots__ = ("emit", "raw")

    def __init__(self, emit: Emitter, raw: Any) -> None:
        self.emit, self.raw = emit, raw

    @property
    def kind(self) -> Any:
        return self.raw.type

    @property
    def lanes(self) -> int:
        return int(self.raw.type.count)

    @property
    def floating(self) -> bool:
        element = self.kind.element if isinstance(self.kind, ir.VectorType) else self.kind
        return isinstance(element, (ir.FloatType, ir.HalfType))

    def _both(self, integer: str, floating: str, other: Value | Number) -> Value:
        method = getattr(self.emit.b, floating if self.floating else integer)
        return Value(self.emit, method(self.raw, self.emit.raw(other, self.kind)))

    def _compare(self, sign: str, other: Value | Number) -> Value:
        method = self.emit.b.fcmp_ordered if self.floating else self.emit.b.icmp_signed
        return Value(self.emit, method(sign, self.raw, self.emit.raw(other, self.kind)))

    def __add__(self, other: Value | Number) -> Value:
        return self._both("add", "fadd", other)

    __radd__ = __add__

    def __sub__(self, other: Value | Number) -> Value:
        return self._both("sub", "fsub", other)

    def __mul__(self, other: Value | Number) -> Value:
        return self._both("mul", "fmul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Value | Number) -> Value:
        return self._both("sdiv", "fdiv", other)

    def __and__(self, other: Value | int) -> Value:
        return self._both("and_", "", other)

    def __or__(self, other: Value | int) -> Value:
        return self._both("or_", "", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._both("xor", "", other)

    def __lshift__(self, other: Value | int) -> Value:
        return self._both("shl", "", other)

    def __rshift__(self, other: Value | int) -> Value:
        return self._both("lshr", "", other)

    def __neg__(self) -> Value:
        return Value(self.emit, (self.emit.b.fneg if self.floating else self.emit.b.neg)(self.raw))

    def __lt__(self, other: Value | Number) -> Value:
        return self._compare("<", other)

    def __le__(self, other: Value | Number) -> Value:
        return self._compare("<=", other)

    def __gt__(self, other: Value | Number) -> Value:
        return self._compare(">", other)

    def __ge__(self, other: Value | Number) -> Value:
        return self._compare(">=", other)

    def equals(self, other: Value | Number) -> Value:
        return self._compare("==", other)


class Var:
    """A value that changes; LLVM turns it into a register."""

    def __init__(self, emit: Emitter, kind: ir.Type, start: Value | Number) -> None:
        with emit.b.goto_entry_block():
            self.slot = emit.b.alloca(kind)
        self.emit, self.kind = emit, kind
        self.set(start)

    def get(self) -> Value:
        return Value(self.emit, self.emit.b.load(self.slot))

    def set(self, value: Value | Number) -> None:
        self.emit.b.store(self.emit.raw(value, self.kind), self.slot)


class Emitter:
    """The instructions of one function.  Addresses and counts are i64; Python numbers are taken wherever a value is."""

    def __init__(self, builder: ir.IRBuilder, tier: Tier) -> None:
        self.b, self.tier = builder, tier

    # Constants and memory

    def raw(self, value: Value | Number | Sequence[Number] | None, kind: ir.Type) -> Any:
        """The llvmlite value behind `value`; numbers become constants of `kind`, in all lanes or one by one."""
        if isinstance(value, Value):
            return value.raw
        if isinstance(kind, ir.VectorType) and isinstance(value, (int, float)):
            value = [value] * kind.count
        return ir.Constant(kind, list(value) if isinstance(value, (range, tuple)) else value)

    def const(self, kind: ir.Type, value: Number | Sequence[Number] | None = None) -> Value:
        """A constant: one number for all lanes, a number for each, or (None) zero."""
        return Value(self, self.raw(value, kind))

    def _pointer(self, address: Value | int, kind: ir.Type) -> Any:
        return self.b.inttoptr(self.raw(address, I64), kind.as_pointer())

    def load(self, address: Value | int, kind: ir.Type) -> Value:
        """What lies at `address`, which need not be aligned."""
        return Value(self, self.b.load(self._pointer(address, kind), align=1))

    def store(self, value: Value, address: Value | int) -> None:
        self.b.store(value.raw, self._pointer(address, value.kind), align=1)

    def field(self, record: Value, index: int) -> Value:
        """The i64 number `index` of a record."""
        return self.load(record + 8 * index, I64)

    def field_f32(self, record: Value, index: int) -> Value:
        """A number of a record that is kept as a float's bits."""
        return self.load(record + 8 * index, F32)

    def memory(self, size: int) -> Value:
        """The address of so many bytes of the call's own, on the border of a cache line."""
        with self.b.goto_entry_block():
            slot = self.b.alloca(ir.ArrayType(I8, size))
            slot.align = 64
            return Value(self, self.b.ptrtoint(slot, I64))

    def table(self, data: bytes) -> Value:
        """The address of these bytes, which become part of the code."""
        kind, module = ir.ArrayType(I8, len(data)), self.b.module
        constant = ir.GlobalVariable(module, kind, module.get_unique_name("table"))
        constant.linkage, constant.global_constant, constant.align = "internal", True, 64
        constant.initializer = ir.Constant(kind, bytearray(data))
        return Value(self, self.b.ptrtoint(constant, I64))

    def gather(self, table: Value, indices: Value, kind: ir.IntType) -> Value:
        """Entries of `kind` of the table at this address, by 8- or 16-bit unsigned indices, which fill whole 64-bit
        words."""
        size = indices.kind.element.width
        words = self.bits(indices, vec(I64, indices.lanes * size // 64))
        numbers = [
            (self.lane(words, k * size // 64) >> (k * size % 64)) & ((1 << size) - 1) for k in range(indices.lanes)
        ]
        return self.join(*(self.load(table + number * (kind.width // 8), vec(kind, 1)) for number in numbers))

    def prefetch(self, address: Value, cache: int = 1) -> None:
        """Ask for the cache line at `address`, which may lie outside of any mapping, in the first or second cache."""
        flags = [ir.Constant(I32, v) for v in (0, 4 - cache, 1)]
        self._call("llvm.prefetch.p0", VOID, [self._pointer(address, I8), *flags])

    def _call(self, name: str, result: ir.Type, args: Sequence[Any]) -> Any:
        kinds = [a.type for a in args]
        fn = self.b.module.globals.get(name) or ir.Function(self.b.module, ir.FunctionType(result, kinds), name)
        return self.b.call(fn, args)

    def intrinsic(self, name: str, result: ir.Type, *args: Value) -> Value:
        """Call the LLVM intrinsic `name`."""
        return Value(self, self._call(name, result, [a.raw for a in args]))

    def jump(self, function: Value, *args: Value | int) -> None:
        """Call the kernel at the address `function`."""
        kind = ir.FunctionType(VOID, [I64] * len(args)).as_pointer()
        self.b.call(self.b.inttoptr(function.raw, kind), [self.raw(a, I64) for a in args])

    # Control flow

    def var(self, kind: ir.Type, start: Value | Number = 0) -> Var:
        return Var(self, kind, start)

    @contextmanager
    def loop(self, start: Value | int, stop: Value | int, step: Value | int = 1) -> Iterator[Value]:
        """for i in range(start, stop, step), the body being the `with` block."""
        i = self.var(I64, start)
        with self.forever() as leave:
            now = i.get()
            leave(now >= stop)
            yield now
            i.set(now + step)

    @contextmanager
    def forever(self) -> Iterator[Any]:
        """while True; the function it gives leaves the loop when its mask is set."""
        head, done = self.b.append_basic_block("head"), self.b.append_basic_block("done")
        self.b.branch(head)
        self.b.position_at_end(head)

        def leave(condition: Value) -> None:
            rest = self.b.append_basic_block("rest")
            self.b.cbranch(condition.raw, done, rest)
            self.b.position_at_end(rest)

        yield leave
        self.b.branch(head)
        self.b.position_at_end(done)

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """if condition: the `with` block."""
        with self.b.if_then(condition.raw):
            yield

    def select(self, condition: Value, yes: Value, no: Value | Number) -> Value:
        return Value(self, self.b.select(condition.raw, yes.raw, self.raw(no, yes.kind)))

    def least(self, x: Value, y: Value | int) -> Value:
        return self.select(x < y, x, y)

    # Threads

    def claim(self, counter: Value, count: Value | int = 1) -> Value:
        """Add `count` to the i64 at `counter` and return what it was; no two threads get the same numbers."""
        return Value(self, self.b.atomic_rmw("add", self._pointer(counter, I64), self.raw(count, I64), "acq_rel"))

    def swapped(self, address: Value, old: Value, new: Value) -> Value:
        """Whether the i64 at `address` was `old`, and is `new` now."""
        found = self.b.cmpxchg(self._pointer(address, I64), old.raw, new.raw, "acq_rel", "acquire")
        return Value(self, self.b.extract_value(found, 1))

    def load_shared(self, address: Value) -> Value:
        """An i64 other threads write, with all they wrote before it."""
        return Value(self, self.b.load_atomic(self._pointer(address, I64), "acquire", 8))

    def store_shared(self, value: Value | int, address: Value) -> None:
        self.b.store_atomic(self.raw(value, I64), self._pointer(address, I64), "release", 8)

    def pause(self) -> None:
        """Tell the core that this loop only waits."""
        if self.tier.machine == "x86_64":
            self._call("llvm.x86.sse2.pause", VOID, [])
        if self.tier.machine == "aarch64":  # some 10 ns; yield, which is meant for this, does nothing on most cores
            self._call("llvm.aarch64.isb", VOID, [ir.Constant(I32, 15)])

    def order(self) -> None:
        """No reading or writing of memory is moved across this point when the code is scheduled; no instruction."""
        self.b.fence("seq_cst", "singlethread")

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

    def splat(self, x: Value, lanes: int) -> Value:
        """`x` in every lane."""
        undefined = ir.Constant(vec(x.kind, lanes), ir.Undefined)
        return self.pick(Value(self, self.b.insert_element(undefined, x.raw, ir.Constant(I32, 0))), [0] * lanes)

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

    def pick(self, x: Value, lanes: Sequence[int], y: Value | None = None) -> Value:
        """Lanes of `x`, followed in numbering by those of `y`, in the given order."""
        other = ir.Constant(x.kind, ir.Undefined) if y is None else y.raw
        return Value(self, self.b.shuffle_vector(x.raw, other, ir.Constant(vec(I32, len(lanes)), list(lanes))))

    def lane(self, x: Value, index: int) -> Value:
        return Value(self, self.b.extract_element(x.raw, ir.Constant(I32, index)))

    def join(self, *parts: Value) -> Value:
        """Vectors of one type behind each other; their number is a power of two."""
        if len(parts) == 1:
            return parts[0]
        half = len(parts) // 2
        x, y = self.join(*parts[:half]), self.join(*parts[half:])
        return self.pick(x, range(2 * x.lanes), y)

    def part(self, x: Value, start: int, lanes: int) -> Value:
        return self.pick(x, range(start, start + lanes))

    def bits(self, x: Value, kind: ir.Type) -> Value:
        """The same bits as another type."""
        return Value(self, self.b.bitcast(x.raw, kind))

    def shift(self, x: Value, *counts: int) -> Value:
        """Bytes of `x` shifted right by one count for each equal part of the vector (left where negative).

        Bits cross byte borders: mask the result.  A part is a multiple of 8 bytes."""
        n = x.lanes
        words = self.bits(x, vec(I64, n // 8))
        spread = [c for c in counts for _ in range(n // 8 // len(counts))]
        if any(c > 0 for c in spread):
            words = words >> self.const(words.kind, [max(c, 0) for c in spread])
        if any(c < 0 for c in spread):
            words = words << self.const(words.kind, [max(-c, 0) for c in spread])
        return self.bits(words, x.kind)

    def fold(self, x: Value, lanes: int) -> Value:
        """Add the halves of `x` until no more than `lanes` are left, filled up with zeros where there were fewer."""
        while x.lanes > lanes:
            half = x.lanes // 2
            x = self.part(x, 0, half) + self.part(x, half, half)
        while x.lanes < lanes:
            x = self.join(x, self.const(x.kind))
        return x

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

    def flags(self, x: Value) -> Value:
        """The mask with a lane for each bit of an integer or of a vector of them, lowest first."""
        n = x.lanes * x.kind.element.width if isinstance(x.kind, ir.VectorType) else x.kind.width
        if self.tier.name == "avx512vnni":
            return self.bits(x, vec(I1, n))
        spread = self.pick(self.bits(x, vec(I8, n // 8)), [i // 8 for i in range(n)])
        return (spread & self.const(spread.kind, [1 << i % 8 for i in range(n)])).equals(0) ^ -1

    def total(self, x: Value) -> Value:
        """Sum of the lanes, in a fixed order: halves are added until one lane is left."""
        return self.lane(self.fold(x, 1), 0)

    def largest(self, x: Value) -> Value:
        """The largest lane."""
        while x.lanes > 1:
            half = x.lanes // 2
            x = self.maximum(self.part(x, 0, half), self.part(x, half, half))
        return self.lane(x, 0)

    def first(self, count: Value, lanes: int) -> Value:
        """The mask of the first `count` (i64) of so many lanes."""
        numbers = self.const(vec(I64, lanes), range(lanes))
        return numbers < self.splat(count, lanes)

    def load_some(self, address: Value, mask: Value, kind: ir.VectorType) -> Value:
        """Lanes of memory where `mask` is set, zero elsewhere; what is not asked for is not touched."""
        name = f"llvm.masked.load.v{kind.count}{'f' if kind.element == F32 else 'i'}{32}.p0"
        args = [self._pointer(address, kind), mask.raw, ir.Constant(kind, None)]
        args.insert(1, ir.Constant(I32, 1))
        return Value(self, self._call(name, kind, args))

    def store_some(self, value: Value, address: Value, mask: Value) -> None:
        """Write the lanes where `mask` is set."""
        name = f"llvm.masked.store.v{value.lanes}{'f' if value.floating else 'i'}{32}.p0"
        self._call(name, VOID, [value.raw, self._pointer(address, value.kind), ir.Constant(I32, 1), mask.raw])

    # Conversions

    def widen(self, x: Value, kind: ir.Type) -> Value:
        """Unsigned integers with more bits."""
        return Value(self, self.b.zext(x.raw, kind))

    def widen_signed(self, x: Value, kind: ir.Type) -> Value:
        return Value(self, self.b.sext(x.raw, kind))

    def narrow(self, x: Value, kind: ir.Type) -> Value:
        """The low bits."""
        return Value(self, self.b.trunc(x.raw, kind))

    def to_float(self, x: Value) -> Value:
        """Signed integers as floats."""
        return Value(self, self.b.sitofp(x.raw, vec(F32, x.lanes) if isinstance(x.kind, ir.VectorType) else F32))

    def to_int(self, x: Value) -> Value:
        """Floats without a fraction as i32."""
        return Value(self, self.b.fptosi(x.raw, vec(I32, x.lanes)))

    def shorten(self, x: Value) -> Value:
        """Double floats as floats."""
        return Value(self, self.b.fptrunc(x.raw, vec(F32, x.lanes)))

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

    def maximum(self, x: Value, y: Value) -> Value:
        return self.select(x > y, x, y)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x * y + z, with one rounding where the tier has the instruction."""
        if self.tier.name == "portable":
            return x * y + z
        name = f"llvm.fma.v{x.lanes}f32" if isinstance(x.kind, ir.VectorType) else "llvm.fma.f32"
        return self.intrinsic(name, x.kind, x, y, z)

    def root(self, x: Value) -> Value:
        name = f"llvm.sqrt.v{x.lanes}f32" if isinstance(x.kind, ir.VectorType) else "llvm.sqrt.f32"
        return self.intrinsic(name, x.kind, x)

    def round(self, x: Value) -> Value:
        """The nearest whole numbers, ties to even; |x| < 2**22."""
        return (x + ROUND) - ROUND

    def size(self, x: Value) -> Value:
        """|x|"""
        return self.bits(self.bits(x, vec(I32, x.lanes)) & 0x7FFFFFFF, x.kind)

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

    def raised(self) -> int:
        """What tiles of activations have added to every code: x86 multiplies unsigned bytes by signed ones."""
        return 128 if self.tier.machine == "x86_64" else 0

    def saturates(self) -> bool:
        """Whether `multiply` is exact for weights within +-64 only, where they are bytes."""
        return self.tier.name == "avx2"

    def multiply(self, total: Value, x: Value, w: Value) -> Value:
        """total i32[n] + the sums of 4 products each of activations, raised i8[4n], and weights i8[4n]; on tiers that
        saturate also of 2 products of i16[2n]."""
        n = total.lanes
        if self.tier.name == "avx512vnni":
            return self.intrinsic("llvm.x86.avx512.vpdpbusd.512", total.kind, total, x, w)
        if self.tier.name == "avxvnni":
            return self.pinned(self.intrinsic("llvm.x86.avx512.vpdpbusd.256", total.kind, total, x, w))
        if self.tier.name == "avx2":
            if w.lanes > 2 * n:
                x = self.intrinsic("llvm.x86.avx2.pmadd.ub.sw", vec(I16, 2 * n), x, w)
                w = self.const(x.kind, 1)
            return self.pinned(total + self.intrinsic("llvm.x86.avx2.pmadd.wd", total.kind, x, w))
        if self.tier.name in ("i8mm", "dotprod"):
            return self.intrinsic("llvm.aarch64.neon.sdot.v4i32.v16i8", total.kind, total, w, x)
        if self.tier.name == "neon":
            return self._dot_neon(total, w, x)
        return self._dot_plain(total, self.widen_signed(w, vec(I32, 4 * n)), self.widen_signed(x, vec(I32, 4 * n)))

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

    def adds_neighbours(self, largest: int) -> bool:
        """Whether this tier has instructions for `neighbours` of numbers up to this size."""
        return self.tier.machine == "aarch64" or (self.tier.machine == "x86_64" and largest < 1 << 15)

    def neighbours(self, x: Value, y: Value) -> Value:
        """Sums of two neighbouring lanes of `x` and of `y`, i32, of every four lanes those of x, then those of y."""
        n = x.lanes
        if n > self.tier.lanes:
            halves = [[self.part(v, i, n // 2) for v in (x, y)] for i in (0, n // 2)]
            return self.join(*(self.neighbours(*half) for half in halves))
        if self.tier.machine == "aarch64":
            return self.intrinsic("llvm.aarch64.neon.addp.v4i32", x.kind, x, y)
        pack, add = {
            4: ("sse2.packssdw.128", "sse2.pmadd.wd"),
            8: ("avx2.packssdw", "avx2.pmadd.wd"),
            16: ("avx512.packssdw.512", "avx512.pmaddw.d.512"),
        }[n]
        short = self.intrinsic(f"llvm.x86.{pack}", vec(I16, 2 * n), x, y)
        return self.intrinsic(f"llvm.x86.{add}", x.kind, short, self.const(short.kind, 1))

    def _dot_plain(self, total: Value, codes: Value, x: Value) -> Value:
        products = codes * x
        for k in range(4):
            total = total + self.pick(products, range(k, products.lanes, 4))
        return total

    def _dot_avx2(self, total: Value, codes: Value, x: Value, wide: bool) -> Value:
        n = total.lanes
        if wide:  # 2 * 127 * 128 still fits 16 bits, so the top bit goes through on its own
            total = self._dot_avx2(total, codes & -128, x, False)
            codes = codes & 127
        pairs, sums = {4: ("ssse3.pmadd.ub.sw.128", "sse2.pmadd.wd"), 8: ("avx2.pmadd.ub.sw", "avx2.pmadd.wd")}[n]
        short = self.intrinsic(f"llvm.x86.{pairs}", vec(I16, 2 * n), codes, x)
        return total + self.intrinsic(f"llvm.x86.{sums}", total.kind, short, self.const(short.kind, 1))

    def _dot_neon(self, total: Value, codes: Value, x: Value) -> Value:
        """Of signed codes; the sum of two products fits 16 bits."""
        kind, halves = vec(I16, 8), ([self.part(v, i, 8) for v in (codes, x)] for i in (0, 8))
        low, high = (self.intrinsic("llvm.aarch64.neon.smull.v8i16", kind, *half) for half in halves)
        pairs = self.intrinsic("llvm.aarch64.neon.addp.v8i16", kind, low, high)
        return total + self.intrinsic("llvm.aarch64.neon.saddlp.v4i32.v8i16", total.kind, pairs)
