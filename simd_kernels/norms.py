"""Norms of rows, or of equal groups of a row's numbers, and others that sum over them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.record import GROUPED, NORM, SOFTMAX, UNARY
from edgeinfer.simd_kernels.rows import WIDE, get, my_rows, put, sweep
from edgeinfer.simd_kernels.values import F32, Value


def reduce(e: Emitter, x: Value, size: Value, term: Callable[[Value], Value]) -> Value:
    """Sum of term(number) over `size` numbers at `x`; lanes past the end count as zero numbers, so term(0) must be
    0."""
    total = e.var(WIDE)

    def one(k: Value, mask: Value | None) -> None:
        total.set(total.get() + term(get(e, x + k * 4, mask)))

    sweep(e, size, one)
    return e.total(total.get())


def spread(e: Emitter, x: Value, size: Value, mean: Value) -> Value:
    """Sum of the squared distances of `size` numbers at `x` from `mean`, which is in every lane."""
    squares = e.var(WIDE)

    def one(k: Value, mask: Value | None) -> None:
        away = get(e, x + k * 4, mask) - mean
        away = away if mask is None else e.select(mask, away, 0.0)
        squares.set(e.fma(away, away, squares.get()))

    sweep(e, size, one)
    return e.total(squares.get())


@contextmanager
def my_groups(
    e: Emitter, op: Value, r: SimpleNamespace, thread: Value, threads: Value
) -> Iterator[tuple[Value, Value, Value]]:
    """(number, address in x, address in out) of each group of each row this worker does."""
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.groups) as group:
        at = group * r.size * 4
        yield group, r.x + row * r.x_stride + at, r.out + row * r.out_stride + at


def norm(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """RMS norm: x / sqrt(mean(x**2) + eps) * weight  (https://arxiv.org/abs/1910.07467)."""
    r = NORM.read(e, op)
    with my_groups(e, op, r, thread, threads) as (group, x, out):
        mean = reduce(e, x, r.size, lambda v: v * v) / e.to_float(r.size)
        factor = e.splat(e.const(F32, 1.0) / e.root(mean + r.eps_f32), 16)
        weight = r.weight + group * r.weight_group
        sweep(
            e,
            r.size,
            lambda k, mask: put(e, get(e, x + k * 4, mask) * factor * get(e, weight + k * 4, mask), out + k * 4, mask),
        )


def layer_norm(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """(x - mean) / sqrt(variance + eps) * weight + bias  (https://arxiv.org/abs/1607.06450)."""
    r = NORM.read(e, op)
    with my_groups(e, op, r, thread, threads) as (group, x, out):
        mean = e.splat(reduce(e, x, r.size, lambda v: v) / e.to_float(r.size), 16)
        variance = spread(e, x, r.size, mean) / e.to_float(r.size)
        factor = e.splat(e.const(F32, 1.0) / e.root(variance + r.eps_f32), 16)
        weight, bias = (base + group * r.weight_group for base in (r.weight, r.bias))

        def apply(k: Value, mask: Value | None) -> None:
            scaled = (get(e, x + k * 4, mask) - mean) * factor * get(e, weight + k * 4, mask)
            put(e, scaled + get(e, bias + k * 4, mask), out + k * 4, mask)

        sweep(e, r.size, apply)


def l2_norm(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """x / max(length, eps)"""
    r = NORM.read(e, op)
    with my_groups(e, op, r, thread, threads) as (_, x, out):
        length = e.root(reduce(e, x, r.size, lambda v: v * v))
        factor = e.splat(e.const(F32, 1.0) / e.select(length < r.eps_f32, r.eps_f32, length), 16)
        sweep(e, r.size, lambda k, mask: put(e, get(e, x + k * 4, mask) * factor, out + k * 4, mask))


def softmax(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """exp(x) / its sum, the largest number taken off before."""
    r = SOFTMAX.read(e, op)
    with my_groups(e, op, r, thread, threads) as (_, x, out):
        most, total = e.var(WIDE, float("-inf")), e.var(WIDE)

        def compare(k: Value, mask: Value | None) -> None:
            number = get(e, x + k * 4, mask)
            number = number if mask is None else e.select(mask, number, float("-inf"))
            most.set(e.maximum(number, most.get()))

        sweep(e, r.size, compare)
        top = e.splat(e.largest(most.get()), 16)

        def weigh(k: Value, mask: Value | None) -> None:
            weight = e.exp(get(e, x + k * 4, mask) - top)
            put(e, weight, out + k * 4, mask)
            total.set(total.get() + (weight if mask is None else e.select(mask, weight, 0.0)))

        sweep(e, r.size, weigh)
        factor = e.splat(e.const(F32, 1.0) / e.total(total.get()), 16)
        sweep(e, r.size, lambda k, mask: put(e, get(e, out + k * 4, mask) * factor, out + k * 4, mask))


def dot(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Sums of x * y, one for each group."""
    r = GROUPED.read(e, op)
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.groups) as group:
        x, y = (base + row * stride + group * r.size * 4 for base, stride in ((r.x, r.x_stride), (r.y, r.y_stride)))
        total = e.var(WIDE)

        def one(k: Value, mask: Value | None) -> None:
            total.set(e.fma(get(e, x + k * 4, mask), get(e, y + k * 4, mask), total.get()))

        sweep(e, r.size, one)
        e.store(e.total(total.get()), r.out + row * r.out_stride + group * 4)


def sparsify(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """max(0, x - mean - a * deviation), the deviation as a sample's."""
    r = UNARY.read(e, op)
    with my_rows(e, op, thread, threads) as row:
        x, out = r.x + row * r.x_stride, r.out + row * r.out_stride
        mean = reduce(e, x, r.width, lambda v: v) / e.to_float(r.width)
        squares = spread(e, x, r.width, e.splat(mean, 16))
        least = e.splat(mean + e.root(squares / e.to_float(r.width - 1)) * r.a_f32, 16)

        def apply(k: Value, mask: Value | None) -> None:
            above = get(e, x + k * 4, mask) - least
            put(e, e.select(above < 0.0, e.const(WIDE), above), out + k * 4, mask)  # NaN passes

        sweep(e, r.width, apply)
