"""Mixture of experts: the choice of experts for each token, and their linear layers."""

from collections.abc import Callable
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import F32, I64, Emitter, Value, vec
from edgeinfer.simd_kernels.record import ELEMENTWISE, EXPERT_LINEAR, MIX, ROUTE, STEP
from edgeinfer.simd_kernels.rows import WIDE, add_to, get, my_rows, put, sweep

LEAST_SUM = 2.0**-14  # that weights are divided by: the smallest normal number of float16
NEVER = float("-inf")


def number(e: Emitter, at: Value, i: Value) -> Value:
    """f32 number i of those at `at`."""
    return e.load(at + i * 4, F32)


def chosen(e: Emitter, at: Value, i: Value) -> Value:
    """The number of an expert, i64, of those at `at`."""
    return e.widen(e.lane(e.to_int(e.load(at + i * 4, vec(F32, 1))), 0), I64)


def exp(e: Emitter, x: Value) -> Value:
    return e.lane(e.exp(e.splat(x, 1)), 0)


def route(gate: str) -> Callable[..., None]:
    """out f32[2 * used] = numbers of the experts with the best ranks, best first, then their weights; x f32[experts]
    are their scores.

    A rank is the gate's value of the score, plus the bias.  Values and ranks are kept in the worker's scratch."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        r, s = ROUTE.read(e, op), STEP.read(e, step)
        values = s.scratch + thread * s.scratch_bytes
        ranks = values + r.experts * 4
        with my_rows(e, op, thread, threads) as row:
            x, out = r.x + row * r.x_stride, r.out + row * r.out_stride
            gate_values(e, gate, x, values, r.experts)
            rank(e, r, values, ranks)
            with e.when(r.groups > 1):
                drop_groups(e, r, ranks)
            with e.loop(0, r.used) as place:
                best = best_of(e, ranks, r.experts)
                e.store(e.to_float(best), out + place * 4)
                e.store(number(e, values, best), out + (r.used + place) * 4)
                e.store(e.const(F32, NEVER), ranks + best * 4)
            weigh(e, gate, r, out + r.used * 4)

    return body


def gate_values(e: Emitter, gate: str, x: Value, values: Value, count: Value) -> None:
    if gate == "softmax":
        softmax(e, x, values, count)
        return
    with e.loop(0, count) as i:
        score = number(e, x, i)
        value = e.const(F32, 1.0) / (exp(e, -score) + 1.0) if gate == "sigmoid" else score
        e.store(value, values + i * 4)


def softmax(e: Emitter, x: Value, out: Value, count: Value) -> None:
    top, total = e.var(F32, NEVER), e.var(F32)
    with e.loop(0, count) as i:
        top.set(e.maximum(number(e, x, i), top.get()))
    with e.loop(0, count) as i:
        weight = exp(e, number(e, x, i) - top.get())
        total.set(total.get() + weight)
        e.store(weight, out + i * 4)
    with e.loop(0, count) as i:
        e.store(number(e, out, i) / total.get(), out + i * 4)


def rank(e: Emitter, r: SimpleNamespace, values: Value, ranks: Value) -> None:
    with e.loop(0, r.experts) as i:
        e.store(number(e, values, i) + number(e, r.bias, i), ranks + i * 4)


def drop_groups(e: Emitter, r: SimpleNamespace, ranks: Value) -> None:
    """Ranks of all but the best groups become -inf; a group is as good as its two best experts together."""
    size, merits = r.experts / r.groups, ranks + r.experts * 4
    with e.loop(0, r.groups) as group:
        first, second = e.var(F32, NEVER), e.var(F32, NEVER)
        with e.loop(group * size, group * size + size) as i:
            value = number(e, ranks, i)
            second.set(e.maximum(second.get(), e.select(value > first.get(), first.get(), value)))
            first.set(e.maximum(value, first.get()))
        e.store(first.get() + second.get(), merits + group * 4)
    keep = merits + r.groups * 4  # f32[groups]: 1 for those to keep
    with e.loop(0, r.groups) as group:
        e.store(e.const(F32), keep + group * 4)
    with e.loop(0, r.groups_used):
        best = best_of(e, merits, r.groups)
        e.store(e.const(F32, 1.0), keep + best * 4)
        e.store(e.const(F32, NEVER), merits + best * 4)
    with e.loop(0, r.experts) as i:
        with e.when(number(e, keep, i / size) < 0.5):
            e.store(e.const(F32, NEVER), ranks + i * 4)


def best_of(e: Emitter, numbers: Value, count: Value) -> Value:
    """Where the largest number is, the first of equal ones."""
    best, where = e.var(F32, NEVER), e.var(I64)
    with e.loop(0, count) as i:
        value = number(e, numbers, i)
        better = value > best.get()
        where.set(e.select(better, i, where.get()))
        best.set(e.select(better, value, best.get()))
    return where.get()


def weigh(e: Emitter, gate: str, r: SimpleNamespace, weights: Value) -> None:
    if gate == "chosen":
        softmax(e, weights, weights, r.used)
    total = e.var(F32)
    with e.loop(0, r.used) as i:
        total.set(total.get() + number(e, weights, i))
    least = e.maximum(total.get(), e.const(F32, LEAST_SUM))
    divisor = e.select(r.normalise > 0, least, 1.0)
    with e.loop(0, r.used) as i:
        e.store(number(e, weights, i) / divisor * r.factor_f32, weights + i * 4)


def expert_linear(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """For each token and each expert chosen for it, one linear layer; workers claim chunks of rows."""
    r = EXPERT_LINEAR.read(e, op)
    tokens = e.load(e.field(op, 2), I64)
    chunks = (r.rows + (r.chunk - 1)) / r.chunk
    with e.forever() as leave:
        item = e.claim(r.counter)
        leave(item >= tokens * r.used * chunks)
        pair = item / chunks
        token = pair / r.used
        place, first = pair - token * r.used, (item - pair * chunks) * r.chunk
        expert = chosen(e, r.y + token * r.y_stride, place)
        x = r.x + token * r.x_stride + place * r.x_part
        out = r.out + token * r.out_stride + (place * r.rows + first) * 4
        count = e.least(r.chunk, r.rows - first)
        e.jump(r.dot, r.w + expert * r.expert_bytes + first * r.row_bytes, r.row_bytes, count, x, r.cols, out)
        with e.when(r.bias > 0):
            add_to(e, out, r.bias + (expert * r.rows + first) * 4, count)


def mix(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """out f32[sums][size] = sums of the parts of x f32[groups][size], weighted by y f32[sums][groups]."""
    r = MIX.read(e, op)
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.sums) as total:
        x, y = r.x + row * r.x_stride, r.y + row * r.y_stride + total * r.groups * 4
        out = r.out + row * r.out_stride + total * r.size * 4

        def one(k: Value, mask: Value | None) -> None:
            result = e.var(WIDE)
            with e.loop(0, r.groups) as part:
                weight = e.splat(number(e, y, part), 16)
                result.set(e.fma(get(e, x + (part * r.size + k) * 4, mask), weight, result.get()))
            put(e, result.get(), out + k * 4, mask)

        sweep(e, r.size, one)


def pick(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Numbers of the vector y at the places that x gives as floats."""
    r = ELEMENTWISE.read(e, op)
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.width) as i:
        expert = chosen(e, r.x + row * r.x_stride, i)
        e.store(number(e, r.y, expert), r.out + row * r.out_stride + i * 4)
