"""Norms of rows, or of equal groups of a row's numbers."""

from collections.abc import Callable

from edgeinfer.simd_kernels.emit import F32, Emitter, Value
from edgeinfer.simd_kernels.record import NORM
from edgeinfer.simd_kernels.rows import WIDE, get, my_rows, put, sweep


def reduce(e: Emitter, x: Value, size: Value, term: Callable[[Value], Value]) -> Value:
    """Sum of term(number) over `size` numbers at `x`; lanes past the end count as zero numbers, so term(0) must be 0."""
    total = e.var(WIDE)

    def one(k: Value, mask: Value | None) -> None:
        total.set(total.get() + term(get(e, x + k * 4, mask)))

    sweep(e, size, one)
    return e.total(total.get())


def norm(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """RMS norm: x / sqrt(mean(x**2) + eps) * weight  (https://arxiv.org/abs/1910.07467)."""
    r = NORM.read(e, op)
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.groups) as group:
        x, out = (base + row * stride + group * r.size * 4 for base, stride in ((r.x, r.x_stride), (r.out, r.out_stride)))
        mean = reduce(e, x, r.size, lambda v: v * v) / e.to_float(r.size)
        factor = e.splat(e.const(F32, 1.0) / e.root(mean + r.eps_f32), 16)
        weight = r.weight + group * r.weight_group
        sweep(e, r.size, lambda k, mask: put(e, get(e, x + k * 4, mask) * factor * get(e, weight + k * 4, mask), out + k * 4, mask))


def layer_norm(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """(x - mean) / sqrt(variance + eps) * weight + bias  (https://arxiv.org/abs/1607.06450)."""
    r = NORM.read(e, op)
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.groups) as group:
        x, out = (base + row * stride + group * r.size * 4 for base, stride in ((r.x, r.x_stride), (r.out, r.out_stride)))
        mean = e.splat(reduce(e, x, r.size, lambda v: v) / e.to_float(r.size), 16)
        squares = e.var(WIDE)

        def spread(k: Value, mask: Value | None) -> None:
            away = get(e, x + k * 4, mask) - mean
            away = away if mask is None else e.select(mask, away, 0.0)
            squares.set(e.fma(away, away, squares.get()))

        sweep(e, r.size, spread)
        variance = e.total(squares.get()) / e.to_float(r.size)
        factor = e.splat(e.const(F32, 1.0) / e.root(variance + r.eps_f32), 16)
        weight, bias = (base + group * r.weight_group for base in (r.weight, r.bias))

        def apply(k: Value, mask: Value | None) -> None:
            scaled = (get(e, x + k * 4, mask) - mean) * factor * get(e, weight + k * 4, mask)
            put(e, scaled + get(e, bias + k * 4, mask), out + k * 4, mask)

        sweep(e, r.size, apply)


def l2_norm(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """x / max(length, eps)"""
    r = NORM.read(e, op)
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.groups) as group:
        x, out = (base + row * stride + group * r.size * 4 for base, stride in ((r.x, r.x_stride), (r.out, r.out_stride)))
        length = e.root(reduce(e, x, r.size, lambda v: v * v))
        factor = e.splat(e.const(F32, 1.0) / e.select(length < r.eps_f32, r.eps_f32, length), 16)
        sweep(e, r.size, lambda k, mask: put(e, get(e, x + k * 4, mask) * factor, out + k * 4, mask))
