"""Mixture of experts: the choice of experts for each token, and their linear layers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from edgeinfer.simd_kernels.arithmetic import softplus
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import FEW, FEW_SUMS, SPAN, SPAN_BYTES
from edgeinfer.simd_kernels.record import ASSIGN, ELEMENTWISE, EXPERT_LINEAR, MIX, ROUTE, SINKHORN, STEP
from edgeinfer.simd_kernels.rows import WIDE, add_to, claimed, dot_rows, get, my_rows, path, put, sweep
from edgeinfer.simd_kernels.values import F32, I8, I32, I64, Value, vec

LEAST_SUM = 2.0**-14  # that weights are divided by: the smallest normal number of float16
NEVER = float("-inf")
GATES = ("softmax", "sigmoid", "chosen", "sqrtsoftplus")


def number(e: Emitter, at: Value, i: Value) -> Value:
    """f32 number i of those at `at`."""
    return e.load(at + i * 4, F32)


def chosen(e: Emitter, at: Value, i: Value) -> Value:
    """The number of an expert, i64, of those at `at`."""
    return e.widen(e.to_int(e.load(at + i * 4, F32)), I64)


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


def assign(gate: str) -> Callable[..., None]:
    """The same where a table says the experts by the token's id."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        r, s = ASSIGN.read(e, op), STEP.read(e, step)
        values = s.scratch + thread * s.scratch_bytes
        with my_rows(e, op, thread, threads) as row:
            out, experts = r.out + row * r.out_stride, r.table + e.field(s.ids + row * 8, 0) * r.used * 4
            gate_values(e, gate, r.x + row * r.x_stride, values, r.experts)
            with e.loop(0, r.used) as place:
                expert = e.widen(e.load(experts + place * 4, I32), I64)
                e.store(e.to_float(expert), out + place * 4)
                e.store(number(e, values, expert), out + (r.used + place) * 4)
            weigh(e, gate, r, out + r.used * 4)

    return body


def gate_values(e: Emitter, gate: str, x: Value, values: Value, count: Value) -> None:
    if gate == "softmax":
        softmax(e, x, values, count)
        return
    with e.loop(0, count) as i:
        score = number(e, x, i)
        if gate == "sigmoid":
            score = e.const(F32, 1.0) / (exp(e, -score) + 1.0)
        if gate == "sqrtsoftplus":
            score = e.lane(e.root(softplus(e, e.splat(score, 1))), 0)
        e.store(score, values + i * 4)


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


def sinkhorn(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """A small matrix whose rows and columns are divided by their sums in turn  (https://arxiv.org/abs/2512.24880)."""
    r = SINKHORN.read(e, op)
    with my_rows(e, op, thread, threads) as row:
        x, out = r.x + row * r.x_stride, r.out + row * r.out_stride
        with e.loop(0, r.side) as i:
            line = out + i * r.side * 4
            softmax(e, x + i * r.side * 4, line, r.side)
            with e.loop(0, r.side) as j:
                e.store(number(e, line, j) + r.eps_f32, line + j * 4)
        with e.loop(0, r.turns) as turn:
            with e.when(turn > 0):
                divide(e, r, out, r.side, e.const(I64, 1))
            divide(e, r, out, e.const(I64, 1), r.side)


def divide(e: Emitter, r: SimpleNamespace, out: Value, line: Value, place: Value) -> None:
    """Lines of a square, `line` numbers apart, divided by the sum of their numbers, `place` apart, + eps."""
    with e.loop(0, r.side) as i:
        total = e.var(F32, r.eps_f32)
        with e.loop(0, r.side) as j:
            total.set(total.get() + number(e, out, i * line + j * place))
        with e.loop(0, r.side) as j:
            at = i * line + j * place
            e.store(number(e, out, at) / total.get(), out + at * 4)


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


def expert_linear(quantised: bool) -> Callable[..., None]:
    """For each token and each expert chosen for it, one linear layer."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        r, s = EXPERT_LINEAR.read(e, op), STEP.read(e, step)
        tokens = e.load(e.field(op, 2), I64)
        alone, *_ = path(tokens, s.few, s.uniform)
        with e.when(alone):
            one_token(e, r)
        with e.when(alone.equals(0)):
            by_expert(e, r, s.scratch + thread * s.scratch_bytes, tokens, quantised)

    return body


@contextmanager
def claimed_chunks(e: Emitter, r: SimpleNamespace, experts: Value) -> Iterator[tuple[Value, Value, Value]]:
    """Chunks of rows of so many experts that this worker claims: the expert's number, the first row, how many."""
    chunks = (r.rows + (r.chunk - 1)) / r.chunk
    with claimed(e, r.counter, e.const(I64, 1), experts * chunks) as (item, _):
        expert = item / chunks
        first = (item - expert * chunks) * r.chunk
        yield expert, first, e.least(r.chunk, r.rows - first)


def one_token(e: Emitter, r: SimpleNamespace) -> None:
    """Workers claim chunks of rows of the chosen experts."""
    with claimed_chunks(e, r, r.used) as (place, first, count):
        expert = chosen(e, r.y, place)
        out = r.out + (place * r.rows + first) * 4
        w = r.w + expert * r.expert_bytes + first * r.row_bytes
        dot_rows(e, r, w, count, r.x + place * r.x_part, out, r.bias + (expert * r.rows + first) * 4)


def by_expert(e: Emitter, r: SimpleNamespace, scratch: Value, tokens: Value, quantised: bool) -> None:
    """Workers claim chunks of rows of all experts; those that no token chose are not read, the others once for each FEW
    tokens (layout.expert_scratch has the memory)."""
    ends = scratch + (FEW_SUMS + 8)
    pairs = ends + r.experts * 8
    sort(e, r, tokens, ends, pairs)
    x = (pairs + tokens * r.used * 8 + 63) & -64
    x_bytes = e.const(I64, 0) if quantised else (r.cols * 4 + 63) & -64
    room = ((r.cols + (SPAN - 1)) >> 8) * SPAN_BYTES if quantised else x_bytes
    results = x + room * FEW
    with claimed_chunks(e, r, r.experts) as (expert, first, count):
        stop = e.field(ends + expert * 8, 0)
        with e.loop(e.field(ends + expert * 8, -1), stop, FEW) as start:
            some, mine = e.least(stop - start, e.const(I64, FEW)), pairs + start * 8
            with e.loop(0, some) as i:
                token, place = token_and_place(e, r, mine, i)
                gather(e, r, r.x + token * r.x_stride + place * r.x_part, x, i, some, quantised)
            w = r.w + expert * r.expert_bytes + first * r.row_bytes
            e.jump(r.few, w, r.row_bytes, count, x, x_bytes, r.cols, results, r.chunk * 4, some, scratch)
            with e.loop(0, some) as i:
                token, place = token_and_place(e, r, mine, i)
                source, out = results + i * r.chunk * 4, r.out + token * r.out_stride + (place * r.rows + first) * 4
                sweep(e, count, lambda k, mask: put(e, get(e, source + k * 4, mask), out + k * 4, mask))
                with e.when(r.bias > 0):
                    add_to(e, out, r.bias + (expert * r.rows + first) * 4, count)


def sort(e: Emitter, r: SimpleNamespace, tokens: Value, ends: Value, pairs: Value) -> None:
    """pairs i64[tokens * used] = numbers of tokens and places (token * used + place) by their expert; ends i64[experts]
    = where those of each expert end, and 0 before that."""
    with e.loop(-1, r.experts) as expert:
        e.store(e.const(I64, 0), ends + expert * 8)
    for fill in (False, True):
        with e.loop(0, tokens) as token, e.loop(0, r.used) as place:
            end = ends + chosen(e, r.y + token * r.y_stride, place) * 8
            now = e.field(end, 0)
            if fill:
                e.store(token * r.used + place, pairs + now * 8)
            e.store(now + 1, end)
        if not fill:
            total = e.var(I64)
            with e.loop(0, r.experts) as expert:
                count = e.field(ends + expert * 8, 0)
                e.store(total.get(), ends + expert * 8)
                total.set(total.get() + count)


def token_and_place(e: Emitter, r: SimpleNamespace, pairs: Value, i: Value) -> tuple[Value, Value]:
    pair = e.field(pairs + i * 8, 0)
    token = pair / r.used
    return token, pair - token * r.used


def gather(e: Emitter, r: SimpleNamespace, source: Value, x: Value, i: Value, count: Value, quantised: bool) -> None:
    """A row of activations becomes row i of `count` that `few` takes."""
    if not quantised:
        row = x + i * ((r.cols * 4 + 63) & -64)
        sweep(e, r.cols, lambda k, mask: put(e, get(e, source + k * 4, mask), row + k * 4, mask))
        return
    pairs, parts = (count + 1) >> 1, range(SPAN_BYTES // 32)
    with e.loop(0, (r.cols + (SPAN - 1)) >> 8) as span:
        home = x + (span * pairs + (i >> 1)) * (2 * SPAN_BYTES) + (i & 1) * 32
        for part in parts:
            e.store(e.load(source + span * SPAN_BYTES + 32 * part, vec(I8, 32)), home + 64 * part)


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
