"""Kernels that remember: short convolutions and recurrences, one token after the other.

Columns do not depend on each other, so 16 of them are the lanes and nothing is summed across lanes.  Workers claim
blocks of up to 16 columns of one unit (a head, or all columns that share their other inputs) and take them through all
tokens of all sequences.  A block's state is f32[depth][16]; the blocks of an op lie behind each other in the sequence's
slot.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import LANES
from edgeinfer.simd_kernels.record import CONDENSE, CONV, DELTA, SHIFT, SSM, STEP, WKV, Record
from edgeinfer.simd_kernels.rows import WIDE, claimed, get, put
from edgeinfer.simd_kernels.values import F32, Value

VECTOR = 4 * LANES  # bytes


@dataclass
class Block:
    """Some columns of one sequence."""

    e: Emitter
    r: SimpleNamespace  # the record
    number: Value
    unit: Value
    column: Value  # the first
    mask: Value | None  # of the columns there are, where they are fewer than 16
    state: Value  # address
    first: Value  # row
    last: Value  # row
    positions: Value  # address, by row

    def row(self, name: str, row: Value) -> Value:
        """Address of a row of the input or output `name`."""
        address: Value = self.r.__dict__[name] + row * self.r.__dict__[f"{name}_stride"]
        return address

    def head(self, name: str, row: Value) -> Value:
        """Address of the unit's `depth` numbers in a row."""
        address: Value = self.row(name, row) + self.unit * self.r.depth * 4
        return address

    def lanes(self, name: str, row: Value, after: Value | int = 0) -> Value:
        """The block's columns of a row, or those so many columns behind them."""
        return get(self.e, self.row(name, row) + (self.column + after) * 4, self.mask)

    def put(self, value: Value, row: Value) -> None:
        put(self.e, value, self.row("out", row) + self.column * 4, self.mask)

    def every(self, address: Value, n: Value | int) -> Value:
        """Number n of those at `address`, in every lane."""
        return self.e.splat(self.e.load(address + n * 4, F32), LANES)


Turn = Callable[[Value], None]  # does one row


def recurrence(record: Record, start: Callable[[Block], Turn]) -> Callable[..., None]:
    """The kernel that takes blocks through rows, each as the turn does that `start` gives for a block."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        r, s = record.read(e, op), STEP.read(e, step)
        blocks = (r.size + (LANES - 1)) / LANES  # of a unit
        with claimed(e, r.counter, r.chunk, r.units * blocks) as (first, count):
            with e.loop(first, first + count) as number:
                unit = number / blocks
                before = (number - unit * blocks) * LANES  # columns of the unit
                place = number, unit, unit * r.size + before
                left = r.size - before
                with e.when(left >= LANES):
                    through(e, r, s, place, None, start)
                with e.when(left < LANES):
                    through(e, r, s, place, e.first(left, LANES), start)

    return body


def through(
    e: Emitter,
    r: SimpleNamespace,
    s: SimpleNamespace,
    place: tuple[Value, Value, Value],
    mask: Value | None,
    start: Callable[[Block], Turn],
) -> None:
    """Take a block (its number, unit and first column) through all tokens."""
    at = r.state + place[0] * r.depth * VECTOR
    with e.loop(0, s.span_count) as i:
        span, slots = s.spans + i * 16, s.states + i * 16
        first, stop = e.field(span, 0), e.field(span, 0) + e.field(span, 1)
        state, copy = e.field(slots, 0) + at, e.field(slots, 1)
        turn = start(Block(e, r, *place, mask, state, first, stop - 1, s.positions))
        with e.loop(first, stop) as row:
            with e.when((copy > 0) & row.equals(stop - 1)), e.loop(0, r.depth) as n:
                e.store(e.load(state + n * VECTOR, WIDE), copy + at + n * VECTOR)
            turn(row)


def shift(b: Block) -> Turn:
    """The row before."""

    def turn(row: Value) -> None:
        b.put(b.e.load(b.state, WIDE), row)
        b.e.store(b.lanes("x", row), b.state)

    return turn


def conv(b: Block) -> Turn:
    """The weighted sum of the last rows, oldest first; the state is all of them but the newest."""
    e, r = b.e, b.r
    w = r.w + b.number * (r.depth + 1) * VECTOR
    bias = e.load(r.bias + b.number * VECTOR, WIDE)

    def turn(row: Value) -> None:
        x = b.lanes("x", row)
        total = e.var(WIDE, e.fma(x, e.load(w + r.depth * VECTOR, WIDE), bias))
        newest = (r.depth - 1) * VECTOR
        with e.loop(0, newest + VECTOR, VECTOR) as n:
            total.set(e.fma(e.load(b.state + n, WIDE), e.load(w + n, WIDE), total.get()))
        with e.loop(0, newest, VECTOR) as n:
            e.store(e.load(b.state + n + VECTOR, WIDE), b.state + n)
        e.store(x, b.state + newest)
        b.put(total.get(), row)

    return turn


def condense(b: Block) -> Turn:
    """The mean of a pool's rows so far, weighed by exp(gate + place); the state is the largest of these exponents, the
    sum of the weights over its own, and that of the weighed rows, by which the next row goes on (online softmax,
    https://arxiv.org/abs/1805.02867)."""

    def turn(row: Value) -> None:
        _, sum_, total = add_to_pool(b, row, b.state)
        b.put(total / sum_, row)

    return turn


def place_in_pool(b: Block, row: Value) -> Value:
    position = b.e.field(b.positions + row * 8, 0)
    place: Value = position - position / b.r.span * b.r.span
    return place


def add_to_pool(b: Block, row: Value, state: Value, half: int = 0) -> list[Value]:
    """Take the three numbers of `condense` at `state` on by a row, of columns and places in this half of all."""
    e, r, place = b.e, b.r, place_in_pool(b, row)
    most_at, sum_at, total_at = (state + n * VECTOR for n in range(3))
    number = b.number + half * ((r.size + (LANES - 1)) / LANES)
    kept = e.splat(e.select(place.equals(0), e.const(F32, 0.0), 1.0), LANES)
    exponent = b.lanes("gate", row, half * r.size) + e.load(r.places + (number * r.span + place) * VECTOR, WIDE)
    before = e.select(kept > 0.0, e.load(most_at, WIDE), exponent)
    most = e.maximum(before, exponent)
    old, weight = kept * e.exp(before - most), e.exp(exponent - most)
    if b.mask is not None:
        weight = e.select(b.mask, weight, 0.0)
    sum_ = e.fma(old, e.load(sum_at, WIDE), weight)
    total = e.fma(old, e.load(total_at, WIDE), weight * b.lanes("x", row, half * r.size))
    for value, at in ((most, most_at), (sum_, sum_at), (total, total_at)):
        e.store(value, at)
    return [most, sum_, total]


def overlap(b: Block) -> Turn:
    """`condense` with what the pool before gave; the state is of the pool's own rows, of these for the pool after it,
    and of those before."""
    e = b.e
    own, after, before = (b.state + 3 * n * VECTOR for n in range(3))

    def turn(row: Value) -> None:
        with e.when(place_in_pool(b, row).equals(0)), e.loop(0, 3 * VECTOR, VECTOR) as n:
            e.store(e.load(after + n, WIDE), before + n)
        add_to_pool(b, row, after)
        most, *new = add_to_pool(b, row, own, half=1)
        top, *old = (e.load(before + n * VECTOR, WIDE) for n in range(3))
        top = e.select(old[0] > 0.0, top, most)  # the first pool has none before it
        whole = e.maximum(top, most)
        shares = e.exp(top - whole), e.exp(most - whole)
        sum_, total = (e.fma(x, shares[0], y * shares[1]) for x, y in zip(old, new, strict=True))
        b.put(total / sum_, row)

    return turn


def ssm(narrow: bool, each: bool) -> Callable[[Block], Turn]:
    """Selective state spaces: S[n] <- exp(dt * a[n]) * S[n] + dt * x * b[n];  y = sum of S[n] * c[n], plus d * x.

    `narrow`: heads have one column and a unit has several (https://arxiv.org/abs/2312.00752), else a unit is a head
    (https://arxiv.org/abs/2405.21060).  `each`: a is there for each n, else there is one for all n."""

    def start(b: Block) -> Turn:
        e, r = b.e, b.r
        a = r.a + (b.number * r.depth * VECTOR if narrow else b.unit * r.depth * 4 if each else b.unit * 4)
        d = e.load(r.d + b.number * VECTOR, WIDE) if narrow else b.every(r.d, b.unit)
        shared = b.unit / r.share * r.depth * 4

        def decay(dt: Value, n: Value | int) -> Value:
            return e.exp(dt * (e.load(a + n * VECTOR, WIDE) if narrow else b.every(a, n)))

        def turn(row: Value) -> None:
            x = b.lanes("x", row)
            dt = b.lanes("dt", row) if narrow else b.every(b.row("dt", row), b.unit)
            into, out = b.row("b", row) + shared, b.row("c", row) + shared
            news, common = dt * x, None if each else decay(dt, 0)
            total = e.var(WIDE, d * x)
            with e.loop(0, r.depth) as n:
                place = b.state + n * VECTOR
                kept = e.load(place, WIDE) * (decay(dt, n) if common is None else common)
                now = e.fma(news, b.every(into, n), kept)
                e.store(now, place)
                total.set(e.fma(now, b.every(out, n), total.get()))
            b.put(total.get(), row)

        return turn

    return start


def wkv(b: Block) -> Turn:
    """RWKV 6's time mixing  (https://arxiv.org/abs/2404.05892): y = sum over n of r[n] * (S[n] + u[n] * k[n] * v), then
    S[n] <- w[n] * S[n] + k[n] * v."""
    e, r = b.e, b.r
    bonus = r.bonus + b.unit * r.depth * 4

    def turn(row: Value) -> None:
        v = b.lanes("v", row)
        receptance, key, decay = (b.head(name, row) for name in "rkw")
        total = e.var(WIDE)
        with e.loop(0, r.depth) as n:
            place = b.state + n * VECTOR
            old, news = e.load(place, WIDE), b.every(key, n) * v
            total.set(e.fma(e.fma(b.every(bonus, n), news, old), b.every(receptance, n), total.get()))
            e.store(e.fma(b.every(decay, n), old, news), place)
        b.put(total.get(), row)

    return turn


def delta(b: Block) -> Turn:
    """The generalised delta rule  (https://arxiv.org/abs/2503.14456), for each column of v:
    S[n] <- w[n] * S[n] + k[n] * v + b[n] * s, where s = sum of a[n] * S[n] over the old state;  y = sum of S[n] * q[n].

    The sum s for the next row is made while the state is written: one pass over the state for each row."""
    e, r = b.e, b.r
    remembered = e.var(WIDE)
    with e.loop(0, r.depth) as n:
        old = e.load(b.state + n * VECTOR, WIDE)
        remembered.set(e.fma(old, b.every(b.head("a", b.first), n), remembered.get()))

    def turn(row: Value) -> None:
        v, s = b.lanes("v", row), remembered.get()
        q, k, w, into = (b.head(name, row) for name in "qkwb")
        ahead = b.head("a", e.least(row + 1, b.last))
        total, following = e.var(WIDE), e.var(WIDE)
        with e.loop(0, r.depth) as n:
            place = b.state + n * VECTOR
            now = e.fma(e.load(place, WIDE), b.every(w, n), b.every(k, n) * v)
            now = e.fma(s, b.every(into, n), now)
            e.store(now, place)
            total.set(e.fma(now, b.every(q, n), total.get()))
            following.set(e.fma(now, b.every(ahead, n), following.get()))
        b.put(total.get(), row)
        remembered.set(following.get())

    return turn


KERNELS = {
    "shift": recurrence(SHIFT, shift),
    "conv": recurrence(CONV, conv),
    "condense": recurrence(CONDENSE, condense),
    "overlap": recurrence(CONDENSE, overlap),
    "ssm.narrow": recurrence(SSM, ssm(narrow=True, each=True)),
    "ssm.wide": recurrence(SSM, ssm(narrow=False, each=False)),
    "ssm.wide.each": recurrence(SSM, ssm(narrow=False, each=True)),
    "wkv": recurrence(WKV, wkv),
    "delta": recurrence(DELTA, delta),
}
