"""Machine values and their types: Python expressions over these write LLVM instructions down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

if TYPE_CHECKING:
    from edgeinfer.simd_kernels.instructions import Instructions

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F16, F32, F64, VOID = ir.HalfType(), ir.FloatType(), ir.DoubleType(), ir.VoidType()
Number = int | float


def vec(kind: ir.Type, lanes: int) -> ir.VectorType:
    """The type of `lanes` values of `kind`."""
    return ir.VectorType(kind, lanes)


class Value:
    """A machine value: an integer, a float or a vector of them.  Operators act lane by lane; Python numbers become
    constants.

    Integers wrap around; `>>` shifts in zeros; comparisons are signed and give a mask for `select` and `when`."""

    __slots__ = ("emit", "raw")

    def __init__(self, emit: Instructions, raw: Any) -> None:
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

    def signed_shift(self, count: int) -> Value:
        """Shifted right, the sign being kept."""
        return Value(self.emit, self.emit.b.ashr(self.raw, self.emit.raw(count, self.kind)))

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

    def __init__(self, emit: Instructions, kind: ir.Type, start: Value | Number) -> None:
        with emit.b.goto_entry_block():
            self.slot = emit.b.alloca(kind)
        self.emit, self.kind = emit, kind
        self.set(start)

    def get(self) -> Value:
        return Value(self.emit, self.emit.b.load(self.slot))

    def set(self, value: Value | Number) -> None:
        self.emit.b.store(self.emit.raw(value, self.kind), self.slot)
