"""Attention over the KV cache (kv.py has its layout).

Keys are taken in chunks of CHUNK positions, which begin at multiples of CHUNK whoever looks.  A row of a chunk gives
its largest score, the sum of its weights and their mix of values; chunks are put together in order, as FlashAttention
does it (https://arxiv.org/abs/2205.14135).  So a row's result is the same bits whatever tile it lies in and however
the work was cut: where there are few rows, workers share the chunks of a row (https://arxiv.org/abs/2311.01282), and
the last to end puts them together.

A row is one head of one token; the heads that share a KV head lie side by side.  What a row may see is compared by
position, without a mask, at the edges only; blocks that no row of a tile sees are never visited.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

from edgeinfer.simd_kernels.arithmetic import tanh
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.instructions import ROUND
from edgeinfer.simd_kernels.kv import padded
from edgeinfer.simd_kernels.layout import (
    BAND,
    BIASES,
    BLOCK,
    CHUNK,
    FEW_QUERIES,
    PANEL,
    QUERIES,
    REACH,
    ROW,
    SPLIT,
    VECTORS,
)
from edgeinfer.simd_kernels.products import LOG2E, Ahead, Codes, Floats, Lines, Panel, asking, product
from edgeinfer.simd_kernels.record import ATTEND, STEP
from edgeinfer.simd_kernels.rows import WIDE, get, put, sweep
from edgeinfer.simd_kernels.values import F32, I32, I64, Value, vec

NOTHING = -1e30  # a maximum below all scores
# Chunks a worker takes at a time where they are shared: at most, and so few that each has so many turns.
SHARE, TURNS = 8, 8
WHOLE = 12  # rows that are whole tiles of either size


class Attend:
    """out = softmax(q . k^T * scale) . v for every head of every row."""

    def __init__(self, kv_type: str, extras: tuple[str, ...] = ()) -> None:
        self.kv_type, self.extras = kv_type, extras

    def body(self, e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        """Workers claim (sequence, band of rows, KV head, share of the chunks), bands that see most keys first."""
        r, s = ATTEND.read(e, op), STEP.read(e, step)
        scratch = s.scratch + thread * s.scratch_bytes
        claimed, before = e.var(I64, e.claim(r.counter)), e.var(I64)
        with e.loop(0, s.span_count) as i:
            first, count = e.field(s.spans + i * 16, 0), e.field(s.spans + i * 16, 1)
            rows = count * r.group
            band = self._band(e, rows * r.kv_heads, s.tokens, threads)
            bands = (rows + (band - 1)) / band
            begin, end = self._chunks(e, r, s, first, count)
            share = self._share(e, end - begin, bands * r.kv_heads, s.tokens, threads)
            parts = (end - begin + share - 1) / share
            with e.forever() as leave:
                item = claimed.get() - before.get()
                leave(item >= bands * r.kv_heads * parts)
                unit = item / parts
                start = (bands - 1 - unit / r.kv_heads) * band
                head = unit - unit / r.kv_heads * r.kv_heads
                chunk = begin + (item - unit * parts) * share
                final = e.field(s.positions + (first + count - 1) * 8, 0)
                of = Rows(first, start, e.least(rows - start, band), head, final)
                Band(e, self, r, s, scratch, of).run(chunk, e.least(chunk + share, end), parts)
                claimed.set(e.claim(r.counter))
            before.set(before.get() + bands * r.kv_heads * parts)

    def _chunks(
        self, e: Emitter, r: SimpleNamespace, s: SimpleNamespace, first: Value, count: Value
    ) -> tuple[Value, Value]:
        """Chunks begin..end - 1 are what the rows of a sequence see."""
        start, last = (e.field(s.positions + row * 8, 0) for row in (first, first + count - 1))
        _, earliest = self.seen(e, r, start, last)
        return earliest / CHUNK, self.seen(e, r, last, last)[0] / CHUNK + 1

    def _band(self, e: Emitter, rows: Value, tokens: Value, threads: Value) -> Value:
        """How many rows go through the chunks together: fewer than BAND where a worker would have too few turns."""
        each = e.least(rows / (threads * (TURNS * WHOLE)) * WHOLE, BAND)
        return e.select(tokens <= SPLIT, e.const(I64, BAND), e.maximum(each, e.const(I64, WHOLE)))

    def _share(self, e: Emitter, chunks: Value, units: Value, tokens: Value, threads: Value) -> Value:
        """How many chunks of a band a worker takes at a time: all where there are enough bands."""
        each = e.least(chunks * units / (threads * TURNS), SHARE)
        return e.select((tokens <= SPLIT) & (threads > 1), e.select(each > 1, each, 1), chunks)

    def seen(self, e: Emitter, r: SimpleNamespace, position: Value, final: Value) -> tuple[Value, Value]:
        """The last and the first position that a query at `position` sees in a step up to `final`; both rise with
        it."""
        start = position - r.window + 1
        earliest = e.select((r.window > 0) & (start > 0), start, 0)
        if "chunk" in self.extras:
            earliest = e.maximum(earliest, position / r.chunk * r.chunk)
        return e.least(position + r.ahead, final), earliest


@dataclass(frozen=True)
class Rows:
    """Query rows of one sequence and KV head.  Row i of a sequence is head i % group (of those sharing the KV head) of
    token i / group."""

    first: Value  # the sequence's first token is this row of the step
    start: Value  # these rows begin with this one of the sequence's
    count: Value
    head: Value
    final: Value  # the last position of the sequence


class Band:
    """Up to BAND query rows that go through the chunks together, in each by tiles of as many as fit the registers.

    What is noted of a row, of one chunk or of all so far, is its maximum and sum, in 64 bytes, and behind them the mix
    of values."""

    def __init__(
        self, e: Emitter, attend: Attend, r: SimpleNamespace, s: SimpleNamespace, scratch: Value, of: Rows
    ) -> None:
        self.e, self.attend, self.r, self.s, self.of = e, attend, r, s, of
        self.table = e.field(r.tables + of.first * 8, 0)
        self.keys = r.pool + of.head * r.head_bytes
        self.values = self.keys + r.value_at
        self.width = 16 * VECTORS[e.tier.lanes]  # keys, or dims of values, that are multiplied side by side
        self.note_bytes = padded(r.value_dim) * 4 + 64
        few = of.count <= 2 * FEW_QUERIES
        self.sizes = (FEW_QUERIES, few), (QUERIES[e.tier.lanes], few ^ -1)  # rows of a tile, and when
        self.size = e.select(few, e.const(I64, FEW_QUERIES), QUERIES[e.tier.lanes])
        self.tiles = (of.count + (self.size - 1)) / self.size
        self.panel = scratch
        self.q = self.panel + PANEL * self.width * 4  # what the products make of the queries; ROW bytes a row, as all
        self.totals = self.q + BAND * ROW  # notes of all chunks so far
        self.notes = self.totals + BAND * ROW  # of one chunk
        self.scores = self.notes + BAND * ROW  # f32[CHUNK], then weights
        # 64 bytes each: last and first position seen, its own, slope f32 or where the bias of its own position lies,
        # and where the numbers of `seen` lie
        self.rows = self.scores + BAND * ROW
        self.products = Codes(e, r) if attend.kv_type == "q8_0" else Floats(e, r, attend.kv_type)

    def run(self, chunk: Value, end: Value, parts: Value) -> None:
        """Take the rows through chunks chunk..end - 1; `parts` workers do so, the last of which puts it together."""
        e = self.e
        with e.loop(0, self.tiles * self.size) as i:
            self._prepare(i)
        begin, stop = self._seen(e.const(I64, 0), self.of.count)
        with e.loop(e.maximum(chunk * CHUNK, begin & -CHUNK), e.least(end * CHUNK, stop), CHUNK) as base:
            self._chunk(base, e.maximum(begin, base), e.least(stop, base + CHUNK), base + CHUNK < stop)
            with e.loop(0, self.of.count) as i, self._visible(i, base):
                note = self.notes + i * ROW
                with e.when(parts > 1):
                    part = self._part(i, base)
                    with e.loop(0, self.note_bytes, 64) as at:
                        e.store(e.load(note + at, WIDE), part + at)
                with e.when(parts <= 1):
                    self._add(i, note)
        done = self.s.done + self._number(e.const(I64, 0)) * 8
        with e.when(parts > 1):
            with e.when(e.claim(done).equals(parts - 1)):
                e.store_shared(0, done)
                with e.loop(0, self.of.count) as i:
                    with e.loop(begin & -CHUNK, stop, CHUNK) as base, self._visible(i, base):
                        self._add(i, self._part(i, base))
                    self._finish(i)
        with e.when(parts <= 1), e.loop(0, self.of.count) as i:
            self._finish(i)

    def _number(self, i: Value) -> Value:
        """Of a row among all rows of all heads."""
        number: Value = (self.of.first * self.r.group + self.of.start + i) * self.r.kv_heads + self.of.head
        return number

    def _part(self, i: Value, base: Value) -> Value:
        """Where the note of a row and a chunk lies that workers share."""
        part: Value = self.s.parts + (self._number(i) * self.s.chunk_count + base / CHUNK) * self.note_bytes
        return part

    @contextmanager
    def _visible(self, i: Value, base: Value) -> Iterator[None]:
        """if the row sees some of the chunk at `base`"""
        last, earliest = (self.e.field(self.rows + i * 64, number) for number in (0, 1))
        with self.e.when((last >= base) & (earliest < base + CHUNK)):
            yield

    def _seen(self, first: Value, stop: Value) -> tuple[Value, Value]:
        """Rows first..stop - 1 see keys from the one to before the other; the former is a block's first."""
        e = self.e
        return e.field(self.rows + first * 64, 1) & -BLOCK, e.field(self.rows + (stop - 1) * 64, 0) + 1

    def _block(self, key: Value) -> Value:
        """Number of the block that holds position `key`."""
        return self.e.widen(self.e.load(self.table + (key >> 4) * 4, I32), I64)

    def _source(self, i: Value, base: Value, stride: Value, width: Value) -> Value:
        token, head = self._token(i)
        return base + token * stride + head * width * 4

    def _token(self, i: Value) -> tuple[Value, Value]:
        """The row of the step, and the head, that row `i` is."""
        row = self.of.start + i
        token = row / self.r.group
        return self.of.first + token, self.of.head * self.r.group + row - token * self.r.group

    def _prepare(self, i: Value) -> None:
        """Have the query ready, clear the result, note what the row sees; rows past the end see nothing."""
        e, r = self.e, self.r
        row, valid = e.least(i, self.of.count - 1), i < self.of.count
        self.products.query(self._source(row, r.q, r.q_stride, r.key_dim), self.q + i * ROW)
        token, head = self._token(row)
        position = e.field(self.s.positions + token * 8, 0)
        last, earliest = self.attend.seen(e, r, position, self.of.final)
        state = self.rows + i * 64
        e.store(e.select(valid, last, -1), state)
        e.store(earliest, state + 8)
        if "seen" in self.attend.extras:
            e.store(r.seen + token * r.seen_stride + self.of.head * r.seen_head, state + 32)
        if "slopes" in self.attend.extras:
            e.store(position, state + 16)
            e.store(e.load(r.slopes + head * 4, F32) * LOG2E, state + 24)
        if "biases" in self.attend.extras:
            e.store(position, state + 16)
            e.store(r.slopes + head * (4 * BIASES) + 4 * (REACH + BLOCK), state + 24)
        sinks = "sinks" in self.attend.extras  # a sink is a key whose score is given and whose value is zero
        total = self.totals + i * ROW
        with e.loop(64, self.note_bytes, 64) as at:
            e.store(e.const(WIDE), total + at)
        e.store(e.load(r.sinks + head * 4, F32) * LOG2E if sinks else e.const(F32, NOTHING), total)
        e.store(e.const(F32, 1.0 if sinks else 0.0), total + 4)

    def _chunk(self, base: Value, begin: Value, end: Value, more: Value) -> None:
        """Notes of the rows and the chunk at `base`, of which they see begin..end - 1; `more`: another one follows."""
        e, r = self.e, self.r
        block = self._block(begin)
        following = block + e.select(more, e.const(I64, CHUNK // BLOCK), 0)
        whole = begin & -self.width, (end + (self.width - 1)) & -self.width
        with e.loop(*whole, self.width) as key:
            ends = [e.least(key + BLOCK * j, (end - 1) & -BLOCK) for j in range(self.width // BLOCK)]
            blocks = [self.keys + self._block(at) * r.key_bytes for at in ends]
            if isinstance(self.products, Codes):
                self._multiply_codes(self.products, base, key, blocks)
            else:
                ahead = self._ahead(self.values + block * r.value_bytes, r.value_bytes)
                self._multiply(self.products, base, key, blocks, ahead.after((key - base) / self.width * r.key_dim))
        with e.loop(0, self.of.count) as i:
            self._hide(i, base, *whole)
        with e.loop(0, self.of.count) as i:
            self._weigh(i, base, *whole)
        aheads = [self._ahead(self.keys + following * r.key_bytes, r.key_bytes)]
        if isinstance(self.products, Codes):  # they are multiplied too fast to ask for values meanwhile
            aheads.append(self._ahead(self.values + following * r.value_bytes, r.value_bytes))
        with e.loop(begin, end, PANEL) as key:
            self._mix(base, key, e.least(key + PANEL, end), aheads)

    def _ahead(self, start: Value, block_bytes: Value) -> Ahead:
        line = self.width * self.products.size
        return Ahead(start, block_bytes * (CHUNK // BLOCK), line, self.e.const(I64, 0))

    def _tiles(self, rows: int, begin: Value, end: Value, body: Callable[[Value, Value, Value], None]) -> None:
        """body(first row, since, until) for every tile of so many rows that sees some of the keys begin..end - 1: it
        sees since..until - 1."""
        e = self.e
        with e.loop(0, self.tiles) as tile:
            first = tile * rows
            since, until = self._seen(first, e.least(first + rows, self.of.count))
            with e.when((since < end) & (until > begin)):
                body(first, since, until)

    def _multiply_codes(self, products: Codes, base: Value, key: Value, blocks: list[Value]) -> None:
        for rows, wanted in self.sizes:

            def scores(first: Value, since: Value, until: Value, rows: int = rows) -> None:
                products.scores(rows, self.q + first * ROW, blocks, self.scores + first * ROW + (key - base) * 4)

            with self.e.when(wanted):
                self._tiles(rows, key, key + self.width, scores)

    def _multiply(self, products: Floats, base: Value, key: Value, blocks: list[Value], ahead: Ahead) -> None:
        """Scores of the rows with the keys of these blocks, `key` and those behind it."""
        e, dims, ((few, if_few), (many, if_many)) = self.e, self.r.key_dim, self.sizes
        with e.loop(0, dims, PANEL) as start:
            stop = e.least(start + PANEL, dims)

            def read(take: Callable[[Value, list[Value]], None]) -> None:
                with asking(e, start, stop, [ahead]) as d:
                    take(d, products.keys(blocks, d))

            def scores(rows: int, lines: Lines, first: Value, since: Value, until: Value) -> None:
                out, q = self.scores + first * ROW + (key - base) * 4, self.q + first * ROW
                product(e, rows, out, start <= 0, q, lines)

            with e.when(if_few):
                self._tiles(few, key, key + self.width, partial(scores, few, read))
            with e.when(if_many):
                panel = Panel(e, self.panel, start)
                read(panel.put)
                self._tiles(many, key, key + self.width, partial(scores, many, panel.lines(start, stop)))

    def _hide(self, i: Value, base: Value, begin: Value, end: Value) -> None:
        """Scores of a row for keys begin..end - 1 as they are to be, -inf where it does not see the key; their maximum
        is noted."""
        e, extras = self.e, self.attend.extras
        state, scores = self.rows + i * 64, self.scores + i * ROW
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
        tops = [e.var(WIDE, NOTHING) for _ in range(self.width // 16)]
        with e.loop(begin, end, self.width) as key:
            for j, top in enumerate(tops):
                top.set(e.maximum(e.load(scores + (key - base) * 4 + 64 * j, WIDE), top.get()))
        e.store(e.largest(e.join(*(top.get() for top in tops))), self.notes + i * ROW)

    def _weigh(self, i: Value, base: Value, begin: Value, end: Value) -> None:
        """Scores of a row become weights 2 ** (score - maximum), whose sum is noted."""
        e, scores, note = self.e, self.scores + i * ROW, self.notes + i * ROW
        top = e.splat(e.load(note, F32), 16)
        sums = [e.var(WIDE) for _ in range(self.width // 16)]
        with e.loop(begin, end, self.width) as key:
            for j, total in enumerate(sums):
                place = scores + (key - base) * 4 + 64 * j
                weight = power(e, e.load(place, WIDE) - top)
                total.set(total.get() + weight)
                e.store(weight, place)
        e.store(e.total(e.join(*(total.get() for total in sums))), note + 4)

    def _mix(self, base: Value, begin: Value, end: Value, aheads: list[Ahead]) -> None:
        """The values of keys begin..end - 1 of a chunk, weighed by each row's weights, into the notes.

        Lines have the numbers of keys in the chunk."""
        e, width, ((few, if_few), (many, if_many)) = self.e, padded(self.r.value_dim), self.sizes
        with e.loop(0, width, self.width) as d:
            dims = [e.least(d + at, width - 16) for at in range(0, self.width, 16)]  # past the end the last once more
            before = (begin - base) * ((width - 1) / self.width) + d / self.width * PANEL
            later = [ahead.after(before) for ahead in aheads]

            def read(start: Value, stop: Value) -> Lines:
                def each(take: Callable[[Value, list[Value]], None]) -> None:
                    with e.loop(start, stop, BLOCK) as first:
                        block = self.values + self._block(base + first) * self.r.value_bytes
                        value = self.products.values(block, dims)
                        with asking(e, first, e.least(stop, first + BLOCK), later) as n:
                            take(n, value(n - first))

                return each

            def mix(
                rows: int, lines: Callable[[Value, Value], Lines], first: Value, since: Value, until: Value
            ) -> None:
                out, fresh = self.notes + first * ROW + 64 + d * 4, e.maximum(since, base) >= begin
                seen = lines(e.maximum(since, begin) - base, e.least(until, end) - base)
                product(e, rows, out, fresh, self.scores + first * ROW, seen)

            with e.when(if_few):
                self._tiles(few, begin, end, partial(mix, few, read))
            with e.when(if_many):
                panel = Panel(e, self.panel, begin - base)
                read(begin - base, end - base)(panel.put)
                self._tiles(many, begin, end, partial(mix, many, panel.lines))

    def _add(self, i: Value, note: Value) -> None:
        """Put a chunk's note to a row's total."""
        e, total = self.e, self.totals + i * ROW
        tops = [e.load(x, F32) for x in (total, note)]
        top = e.maximum(*tops)
        old, new = (power(e, e.splat(x - top, 16)) for x in tops)
        sums = e.load(total + 4, F32) * e.lane(old, 0) + e.load(note + 4, F32) * e.lane(new, 0)
        e.store(top, total)
        e.store(sums, total + 4)
        with e.loop(64, self.note_bytes, 64) as at:
            mix = e.fma(e.load(note + at, WIDE), new, e.load(total + at, WIDE) * old)
            e.store(mix, total + at)

    def _finish(self, i: Value) -> None:
        e, r = self.e, self.r
        total, out = self.totals + i * ROW, self._source(i, r.out, r.out_stride, r.value_dim)
        factor = e.splat(e.const(F32, 1.0) / e.load(total + 4, F32), 16)
        sweep(e, r.value_dim, lambda k, mask: put(e, get(e, total + 64 + k * 4, mask) * factor, out + k * 4, mask))


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
