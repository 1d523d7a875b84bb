"""The output layer where only the largest logits are wanted.

`scan` is the linear layer of one row, which keeps the largest score of every 64 while they are in the cache; `pick`
then looks at those groups only that can hold one of the largest, and so do numpy and its caller at what it found.
"""

from functools import partial
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import GROUP
from edgeinfer.simd_kernels.parts import by_parts
from edgeinfer.simd_kernels.record import PICK, SCAN, STEP
from edgeinfer.simd_kernels.rows import WIDE, dot_rows, get, sweep
from edgeinfer.simd_kernels.values import F32, I1, I16, I32, I64, Value, vec

CLAIM = 16  # groups
# Floats in the order of their bits: the lowest, -inf, and one above +inf.
LOWEST, ABOVE = 0x007FFFFF, 0xFF800001


def scan(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """scores f32[rows] = x . w^T + bias, tops = the largest of each group of 64; NaN where one is not finite.

    What fills up the last group lies there already, and is finite."""
    r = SCAN.read(e, op)

    def make(first: Value, count: Value, scores: Value) -> None:
        dot_rows(e, r, r.w + first * r.row_bytes, count, r.x, scores, r.bias + first * 4)

    by_parts(e, op, step, thread, r, r.scores, make, partial(tops, e, r))


def tops(e: Emitter, r: SimpleNamespace, first: Value, count: Value) -> None:
    """The largest scores of the groups of `count` rows, the first of a group and those after it."""
    with e.loop(first, first + count, GROUP) as row:
        e.store(top(e, r.scores + row * 4), r.tops + (row / GROUP) * 4)


def top(e: Emitter, scores: Value) -> Value:
    """The largest of 64 numbers, NaN if not all are finite: what is not, less itself, is NaN."""
    parts = [e.load(scores + 4 * k, WIDE) for k in range(0, GROUP, 16)]
    largest, nothing = parts[0], parts[0] - parts[0]
    for part in parts[1:]:
        largest, nothing = e.maximum(largest, part), nothing + (part - part)
    return e.largest(largest) + e.total(nothing)


def pick(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Find the rows whose score reaches the bound: the number `wanted` of those at `source` reach.

    With `w` their scores are only upper bounds, which logits computed here replace.  Rows found are noted with their
    scores, in no order: all of them with `keep`, else those whose new score reaches the bound too.  Groups with a
    score that is not finite count as unsound."""
    r, s = PICK.read(e, op), STEP.read(e, step)
    rows = s.scratch + thread * s.scratch_bytes
    bound = reached(e, r.source, e.load(r.source_count, I64), r.wanted)
    with e.forever() as leave:
        first = e.claim(r.counter) * CLAIM
        leave(first >= r.groups)
        count = list_rows(e, r, first, bound, rows)
        with e.when(r.w > 0):
            e.claim(r.rescored, count)
            rescore(e, r, rows, count)
        least = e.select(r.keep > 0, e.const(F32, float("-inf")), bound)
        with e.loop(0, count) as i:
            row = e.field(rows + i * 8, 0)
            score = e.load(r.scores + row * 4, F32)
            with e.when(score >= least):
                place = e.claim(r.found)
                e.store(row, r.ids + place * 8)
                e.store(score, r.values + place * 4)


def list_rows(e: Emitter, r: SimpleNamespace, first: Value, bound: Value, rows: Value) -> Value:
    """Write down the rows of some groups that reach the bound, and have their weights brought near; their count."""
    count = e.var(I64)
    with e.loop(first, e.least(first + CLAIM, r.groups)) as group:
        top = e.load(r.tops + group * 4, F32)
        with e.when(top.equals(top) ^ -1):  # only NaN is not itself
            e.claim(r.unsound)
        with e.when(top >= bound):
            with e.loop(group * GROUP, e.least((group + 1) * GROUP, r.rows), 16) as row:
                hits = e.load(r.scores + row * 4, WIDE) >= e.splat(bound, 16)
                bits = e.var(I64, e.widen(e.bits(hits & e.first(r.rows - row, 16), I16), I64))
                with e.forever() as leave:
                    leave(bits.get().equals(0))
                    hit = row + e.intrinsic("llvm.cttz.i64", I64, bits.get(), e.const(I1, 0))
                    bits.set(bits.get() & (bits.get() - 1))
                    e.store(hit, rows + count.get() * 8)
                    count.set(count.get() + 1)
                    with e.when(r.w > 0), e.loop(0, r.row_bytes, 64) as line:
                        e.prefetch(r.w + hit * r.row_bytes + line)
    return count.get()


def rescore(e: Emitter, r: SimpleNamespace, rows: Value, count: Value) -> None:
    """The logits of these rows, to the last bit as the linear layer has them."""
    with e.loop(0, count) as i:
        row = e.field(rows + i * 8, 0)
        out = r.scores + row * 4
        e.jump(r.dot, r.w + row * r.row_bytes, r.row_bytes, 1, r.x, r.cols, out)
        with e.when(r.bias > 0):
            e.store(e.load(out, F32) + e.load(r.bias + row * 4, F32), out)


def reached(e: Emitter, numbers: Value, count: Value, wanted: Value) -> Value:
    """The largest number that `wanted` of f32[count] reach, by bisection over the order of floats; -inf if all are too
    few.  Of many numbers a lower one will do that hardly more reach."""
    low, high = e.var(I64, LOWEST), e.var(I64, ABOVE)
    more = count >> 9
    with e.forever() as leave:
        leave(high.get() - low.get() <= 1)
        middle = (low.get() + high.get()) >> 1
        reach = how_many(e, numbers, count, in_order(e, middle))
        near = (reach >= wanted) & (reach < wanted + more)
        high.set(e.select((reach < wanted) | near, middle, high.get()))
        low.set(e.select(reach >= wanted, middle, low.get()))
    return in_order(e, low.get())


def in_order(e: Emitter, place: Value) -> Value:
    """The float at this place of their order."""
    positive = place >= 1 << 31
    return e.bits(e.narrow(e.select(positive, place - (1 << 31), -place + ((1 << 32) - 1)), I32), F32)


def how_many(e: Emitter, numbers: Value, count: Value, least: Value) -> Value:
    """Of f32[count] are at least so large."""
    bound, total = e.splat(least, 16), e.var(vec(I32, 16))

    def add(k: Value, mask: Value | None) -> None:
        hits = get(e, numbers + k * 4, mask) >= bound
        hits = hits if mask is None else hits & mask
        total.set(total.get() + e.select(hits, e.const(vec(I32, 16), 1), 0))

    sweep(e, count, add)
    return e.widen(e.total(total.get()), I64)
