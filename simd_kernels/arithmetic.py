"""Kernels that compute number by number: activations, sums and products of rows, constants."""

import math
from collections.abc import Callable
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.record import ELEMENTWISE, GROUPED, STEP, TEMPER, UNARY, Record
from edgeinfer.simd_kernels.rows import get, my_rows, put, sweep
from edgeinfer.simd_kernels.values import F32, I32, Value, vec

Formula = Callable[[Emitter, Value], Value]


def elementwise(
    record: Record, formula: Callable[[Emitter, SimpleNamespace, list[Value]], Value]
) -> Callable[..., None]:
    """A kernel out = formula(x, y) number by number; y only where the record has one."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        r = record.read(e, op)
        with my_rows(e, op, thread, threads) as row:
            rows = [(r.x + row * r.x_stride, r.x_stride)]
            if hasattr(r, "y"):
                rows.append((r.y + row * r.y_stride, r.y_stride))
            out = r.out + row * r.out_stride

            def one(k: Value, mask: Value | None) -> None:
                for source, stride in rows:  # the next row, as prefetchers stop where a page ends
                    e.prefetch(source + stride + k * 4)
                numbers = [get(e, source + k * 4, mask) for source, _ in rows]
                put(e, formula(e, r, numbers), out + k * 4, mask)

            sweep(e, r.width, one)

    return body


def sigmoid(e: Emitter, x: Value) -> Value:
    return e.const(x.kind, 1.0) / (e.exp(-x) + 1.0)


def tanh(e: Emitter, x: Value) -> Value:
    return sigmoid(e, x * 2.0) * 2.0 - 1.0


def gelu(e: Emitter, x: Value) -> Value:
    """x * Phi(x) in its tanh form: 0.5 x (1 + tanh(z)) is x * sigmoid(2 z) with z = sqrt(2 / pi) (x + 0.044715
    x**3)."""
    return x * sigmoid(e, x * (x * x * 0.044715 + 1.0) * (2 * 0.7978845608028654))


def gelu_erf(e: Emitter, x: Value) -> Value:
    """x * Phi(x) = max(x, 0) - |x| * Phi(-|x|), the tail by formula 7.1.26 of Abramowitz and Stegun, to 1e-7."""
    away = e.size(x)
    away = e.select(away < 20.0, away, 20.0)  # where the tail is 0; infinity times it would be NaN
    t = e.const(x.kind, 1.0) / (away * (0.3275911 * 0.5**0.5) + 1.0)
    series = e.const(x.kind, 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = e.fma(series, t, e.const(x.kind, factor))
    tail: Value = series * t * e.exp(x * x * -0.5) * 0.5
    return relu(e, x) - tail * away


def silu(e: Emitter, x: Value) -> Value:
    return x * sigmoid(e, x)


def relu(e: Emitter, x: Value) -> Value:
    return e.select(x < 0.0, e.const(x.kind), x)  # NaN passes


def softplus(e: Emitter, x: Value) -> Value:
    """log(1 + e**x) = max(x, 0) + log(1 + e**-|x|)"""
    return relu(e, x) + log_above_one(e, e.exp(-e.size(x)))


def log_above_one(e: Emitter, z: Value) -> Value:
    """log(1 + z) for z in 0..1: 2 artanh(s) with s = z / (2 + z), at most 1/3."""
    s = z / (z + 2.0)
    square = s * s
    series = e.const(z.kind, 1.0 / 13)
    for power in (11, 9, 7, 5, 3, 1):
        series = e.fma(series, square, e.const(z.kind, 1.0 / power))
    return series * s * 2.0


def log(e: Emitter, x: Value) -> Value:
    """log(x) for normal x above 0; NaN stays NaN: that of its power of two, and of what it is of that."""
    bits = e.bits(x, vec(I32, x.lanes))
    fraction = e.bits(bits & 0x7FFFFF | 0x3F800000, x.kind)
    near: Value = e.to_float((bits >> 23) - 127) * math.log(2) + log_above_one(e, fraction - 1.0)
    return e.select(x > 0.0, near, x)


ACTIVATIONS: dict[str, Formula] = {
    "silu": silu,
    "gelu": gelu,
    "gelu_erf": gelu_erf,
    "relu": relu,
    "relu2": lambda e, x: relu(e, x) * relu(e, x),
    "sigmoid": sigmoid,
    "tanh": tanh,
    "softplus": softplus,
    "exp": lambda e, x: e.exp(x),
    "sqrt": lambda e, x: e.root(x),
}


def xielu(e: Emitter, r: SimpleNamespace, x: Value) -> Value:
    """Constants a, b, c, d are alpha_p, alpha_n, beta, eps  (https://arxiv.org/abs/2411.13010)."""
    positive, negative, beta, least = (e.splat(r.__dict__[name], 16) for name in ("a_f32", "b_f32", "c_f32", "d_f32"))
    low = e.exp(e.select(x < least, x, least)) - 1.0
    return x * beta + e.select(x > 0.0, x * x * positive, (low - x) * negative)


def oss(e: Emitter, gate: Value, up: Value) -> Value:
    """GPT-OSS  (https://arxiv.org/abs/2508.10925)"""
    gate = e.select(gate > 7.0, e.const(gate.kind, 7.0), gate)
    return gate * sigmoid(e, gate * 1.702) * (bounded(e, up, e.const(up.kind, 7.0)) + 1.0)


def bounded(e: Emitter, x: Value, limit: Value) -> Value:
    x = e.select(x > limit, limit, x)
    return e.select(x < -limit, -limit, x)


def softcap(e: Emitter, r: SimpleNamespace, x: Value) -> Value:
    cap = e.splat(r.a_f32, 16)
    return tanh(e, x / cap) * cap


def unary(formula: Callable[[Emitter, SimpleNamespace, Value], Value]) -> Callable[..., None]:
    return elementwise(UNARY, lambda e, r, v: formula(e, r, v[0]))


def activation(act: Formula) -> Callable[..., None]:
    return unary(lambda e, r, x: act(e, x))


def gated(act: Formula) -> Callable[..., None]:
    return elementwise(ELEMENTWISE, lambda e, r, v: act(e, v[0]) * v[1])


KERNELS = {
    "add": elementwise(ELEMENTWISE, lambda e, r, v: v[0] + v[1]),
    "mul": elementwise(ELEMENTWISE, lambda e, r, v: v[0] * v[1]),
    "scale": unary(lambda e, r, x: x * e.splat(r.a_f32, 16)),
    "clamp": unary(lambda e, r, x: bounded(e, x, e.splat(r.a_f32, 16))),
    "softcap": unary(softcap),
    "activate.xielu": unary(xielu),
    "gated.oss": elementwise(ELEMENTWISE, lambda e, r, v: oss(e, v[0], v[1])),
    **{f"activate.{name}": activation(act) for name, act in ACTIVATIONS.items()},
    **{f"gated.{name}": gated(ACTIVATIONS[name]) for name in ("silu", "gelu", "gelu_erf", "relu")},
}


def temper(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Rows times the number the table has for their position."""
    r, s = TEMPER.read(e, op), STEP.read(e, step)
    with my_rows(e, op, thread, threads) as row:
        factor = e.splat(e.load(r.table + e.field(s.positions + row * 8, 0) * 4, F32), 16)
        x, out = r.x + row * r.x_stride, r.out + row * r.out_stride
        sweep(e, r.width, lambda k, mask: put(e, get(e, x + k * 4, mask) * factor, out + k * 4, mask))


def mul_groups(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Each group of `size` numbers of x times its one number of y."""
    r = GROUPED.read(e, op)
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.groups) as group:
        factor = e.splat(e.load(r.y + row * r.y_stride + group * 4, F32), 16)
        at = group * r.size * 4
        x, out = r.x + row * r.x_stride + at, r.out + row * r.out_stride + at
        sweep(e, r.size, lambda k, mask: put(e, get(e, x + k * 4, mask) * factor, out + k * 4, mask))
