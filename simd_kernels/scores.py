"""What a query row sees of the keys, and how its scores become weights: what else happens to them, and the softmax.

What a row may see is compared by position, without a mask, at the edges only.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

from edgeinfer.simd_kernels.arithmetic import tanh
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.instructions import ROUND
from edgeinfer.simd_kernels.layout import BIASES, BLOCK, CHUNK, REACH, ROW
from edgeinfer.simd_kernels.products import LOG2E
from edgeinfer.simd_kernels.rows import WIDE
from edgeinfer.simd_kernels.values import F32, I32, I64, Value, vec

NOTHING = -1e30  # a maximum below all scores


def seen(e: Emitter, r: SimpleNamespace, extras: tuple[str, ...], position: Value, final: Value) -> tuple[Value, Value]:
    """The last and the first position that a query at `position` sees in a step up to `final`; both rise with it."""
    start = position - r.window + 1
    earliest = e.select((r.window > 0) & (start > 0), start, 0)
    if "chunk" in extras:
        earliest = e.maximum(earliest, position / r.chunk * r.chunk)
    return e.least(position + r.ahead, final), earliest


@dataclass(frozen=True)
class Scores:
    """Of some rows with the keys of a chunk, with these extras (layout.ATTENTION_EXTRAS)."""

    e: Emitter
    r: SimpleNamespace  # the record
    extras: tuple[str, ...]
    head: Value  # the KV head
    width: int  # keys that are taken side by side
    place: Value  # f32[CHUNK] of each row, ROW bytes apart
    # 64 bytes of each row: last and first position seen, its own, slope f32 or where the bias of its own position lies,
    # and where the numbers of `seen` lie
    rows: Value

    def note(self, i: Value, token: Value, head: Value, position: Value, last: Value, earliest: Value) -> None:
        """Of row `i`, this head of this row of the step, what it sees and what becomes of its scores."""
        e, r, state = self.e, self.r, self.rows + i * 64
        e.store(last, state)
        e.store(earliest, state + 8)
        if "seen" in self.extras:
            e.store(r.seen + token * r.seen_stride + self.head * r.seen_head, state + 32)
        if "slopes" in self.extras:
            e.store(position, state + 16)
            e.store(e.load(r.slopes + head * 4, F32) * LOG2E, state + 24)
        if "biases" in self.extras:
            e.store(position, state + 16)
            e.store(r.slopes + head * (4 * BIASES) + 4 * (REACH + BLOCK), state + 24)

    def span(self, first: Value, stop: Value) -> tuple[Value, Value]:
        """Rows first..stop - 1 see keys from the one to before the other; the former is a block's first."""
        e = self.e
        return e.field(self.rows + first * 64, 1) & -BLOCK, e.field(self.rows + (stop - 1) * 64, 0) + 1

    @contextmanager
    def visible(self, i: Value, base: Value) -> Iterator[None]:
        """if the row sees some of the chunk at `base`"""
        last, earliest = (self.e.field(self.rows + i * 64, number) for number in (0, 1))
        with self.e.when((last >= base) & (earliest < base + CHUNK)):
            yield

    def hide(self, i: Value, base: Value, begin: Value, end: Value, note: Value) -> None:
        """Scores of a row for keys begin..end - 1 as they are to be, -inf where it does not see the key; their maximum
        is noted."""
        e, extras = self.e, self.extras
        state, scores = self.rows + i * 64, self.place + i * ROW
        last, earliest = e.field(state, 0), e.field(state, 1)
        numbers = e.const(vec(I32, 16), range(16))

        def change(since: Value, until: Value, formula: Callable[[Value, Value], Value]) -> None:
            with e.loop(e.maximum(since, begin), e.least(until, end), BLOCK) as key:
                place = scores + (key - base) * 4
                e.store(formula(e.load(place, WIDE), key), place)

        def within(position: Value, key: Value) -> Value:
            return e.splat(e.narrow(position - key, I32), 16)

        if "cap" in extras:
            cap = e.splat(self.r.cap_f32 * LOG2E, 16)
            change(begin, end, lambda score, key: tanh(e, score / cap) * cap)
        if "slopes" in extras:
            slope, own = e.splat(e.load(state + 24, F32), 16), e.field(state, 2)
            change(begin, end, lambda score, key: score - slope * e.size(e.to_float(within(own, key) - numbers)))
        if "biases" in extras:
            own, same = e.field(state, 2), e.field(state, 3)

            def biased(score: Value, key: Value) -> Value:
                ahead = e.least(e.maximum(key - own, e.const(I64, -REACH - BLOCK)), REACH + 1)
                return score + e.load(same + ahead * 4, WIDE)

            change(begin, end, biased)
        hidden = float("-inf")
        if "seen" in extras:
            words, bits = e.field(state, 4), e.const(vec(I32, 16), [1 << i for i in range(16)])

            def count(score: Value, key: Value) -> Value:
                word = e.to_int(e.load(words + (key >> 4) * 4, F32))
                return e.select((e.splat(word, 16) & bits) > 0, score, hidden)

            change(begin, last + 1, count)
        change(begin, earliest, lambda score, key: e.select(numbers >= within(earliest, key), score, hidden))
        change((last + 1) & -BLOCK, end, lambda score, key: e.select(numbers <= within(last, key), score, hidden))
        self._note_largest(scores, base, begin, end, note)

    def _note_largest(self, scores: Value, base: Value, begin: Value, end: Value, note: Value) -> None:
        e = self.e
        tops = [e.var(WIDE, NOTHING) for _ in range(self.width // 16)]
        with e.loop(begin, end, self.width) as key:
            for j, top in enumerate(tops):
                top.set(e.maximum(e.load(scores + (key - base) * 4 + 64 * j, WIDE), top.get()))
        e.store(e.largest(e.join(*(top.get() for top in tops))), note)

    def weigh(self, i: Value, base: Value, begin: Value, end: Value, note: Value) -> None:
        """Scores of a row become weights 2 ** (score - maximum), whose sum is noted."""
        e, scores = self.e, self.place + i * ROW
        top = e.splat(e.load(note, F32), 16)
        sums = [e.var(WIDE) for _ in range(self.width // 16)]
        with e.loop(begin, end, self.width) as key:
            for j, total in enumerate(sums):
                place = scores + (key - base) * 4 + 64 * j
                weight = power(e, e.load(place, WIDE) - top)
                total.set(total.get() + weight)
                e.store(weight, place)
        e.store(e.total(e.join(*(total.get() for total in sums))), note + 4)


def power(e: Emitter, x: Value) -> Value:
    """2 ** x for x up to 0, to a relative error of 2e-7; 0 where it is less than 2 ** -100, NaN stays NaN.

    The whole part of x goes to the exponent, of the rest a polynomial of degree 5, fitted to the least largest relative
    error over +-1/2, exact at 0."""
    moved = x + ROUND  # the low bits are those of the whole part
    rest = x - (moved - ROUND)
    series = e.const(x.kind, 0.001326472727)
    for term in (0.009671512768, 0.05550733744, 0.2402224208, 0.6931469776, 1.0):
        series = e.fma(series, rest, e.const(x.kind, term))
    whole = e.bits(moved, vec(I32, x.lanes)) << 23
    return e.select(x < -100.0, e.const(x.kind), e.bits(e.bits(series, whole.kind) + whole, x.kind))
