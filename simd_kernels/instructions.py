"""The words of kernels that are plain instructions of LLVM: memory, control flow, threads, lanes, conversions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from edgeinfer.simd_kernels.values import F32, I8, I32, I64, VOID, Number, Value, Var, vec

ROUND = 1.5 * 2.0**23  # at this size a float's last bit is worth one, so that adding it rounds to whole numbers
ROUND_BITS = 0x4B400000


class Instructions:
    """The instructions of one function.  Addresses and counts are i64; Python numbers are taken wherever a value is."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.b = builder

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

    def own(self) -> Value:
        """The address of an i64 that becomes part of the code, zero at first and there for all calls."""
        number = ir.GlobalVariable(self.b.module, I64, self.b.module.get_unique_name("own"))
        number.linkage, number.initializer = "internal", ir.Constant(I64, 0)
        return Value(self, self.b.ptrtoint(number, I64))

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

    def call(self, function: Value, *args: Value | int) -> Value:
        """What the C function at this address returns, as an i64."""
        kind = ir.FunctionType(I64, [I64] * len(args)).as_pointer()
        return Value(self, self.b.call(self.b.inttoptr(function.raw, kind), [self.raw(a, I64) for a in args]))

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

    def order(self) -> None:
        """No reading or writing of memory is moved across this point when the code is scheduled; no instruction."""
        self.b.fence("seq_cst", "singlethread")

    # Lanes

    def splat(self, x: Value, lanes: int) -> Value:
        """`x` in every lane."""
        undefined = ir.Constant(vec(x.kind, lanes), ir.Undefined)
        return self.pick(Value(self, self.b.insert_element(undefined, x.raw, ir.Constant(I32, 0))), [0] * lanes)

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

    def in_halves(self, f: Callable[..., Value], *vectors: Value) -> Value:
        """What is f of the first halves of these vectors, then what it is of the second ones."""
        sizes = [v.lanes // 2 for v in vectors]
        halves = [[self.part(v, i * n, n) for v, n in zip(vectors, sizes, strict=True)] for i in range(2)]
        return self.join(*(f(*half) for half in halves))

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

    def total(self, x: Value) -> Value:
        """Sum of the lanes, in a fixed order: halves are added until one lane is left."""
        return self.lane(self.fold(x, 1), 0)

    def largest(self, x: Value) -> Value:
        """The largest lane."""
        return self.lane(self.across([x], self.maximum), 0)

    def across(self, rows: Sequence[Value], combine: Callable[[Value, Value], Value]) -> Value:
        """The lanes of each of 1, 2 or 4 vectors combined to one, side by side."""
        n, kept = rows[0].lanes, len(rows)
        for size in (1, 2)[: kept // 2]:  # pairs change neighbours within fours of lanes, which takes one instruction
            low = [
                b + i + j + of for b in range(0, n, 4) for i in range(0, 2, size) for of in (0, n) for j in range(size)
            ]
            high = [place + 2 for place in low]
            pairs = zip(rows[::2], rows[1::2], strict=True)
            rows = [combine(self.pick(x, low, y), self.pick(x, high, y)) for x, y in pairs]
        x = rows[0]
        while x.lanes > kept:
            half = x.lanes // 2
            x = combine(self.part(x, 0, half), self.part(x, half, half))
        return x

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
        return Value(self, self.b.fptosi(x.raw, vec(I32, x.lanes) if isinstance(x.kind, ir.VectorType) else I32))

    def shorten(self, x: Value) -> Value:
        """Double floats as floats."""
        return Value(self, self.b.fptrunc(x.raw, vec(F32, x.lanes)))

    # Arithmetic

    def maximum(self, x: Value, y: Value) -> Value:
        return self.select(x > y, x, y)

    def root(self, x: Value) -> Value:
        name = f"llvm.sqrt.v{x.lanes}f32" if isinstance(x.kind, ir.VectorType) else "llvm.sqrt.f32"
        return self.intrinsic(name, x.kind, x)

    def round(self, x: Value) -> Value:
        """The nearest whole numbers, ties to even; |x| < 2**22."""
        return (x + ROUND) - ROUND

    def nearest(self, x: Value) -> Value:
        """The nearest whole numbers as i32, ties to even; |x| < 2**22, others give any numbers."""
        return self.bits(x + ROUND, vec(I32, x.lanes)) - ROUND_BITS

    def size(self, x: Value) -> Value:
        """|x|"""
        return self.bits(self.bits(x, vec(I32, x.lanes)) & 0x7FFFFFFF, x.kind)
