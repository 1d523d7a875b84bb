"""Attention over the KV cache (kv.py has its layout).

Keys are taken in chunks of CHUNK positions, which begin at multiples of CHUNK whoever looks.  A row of a chunk gives
its largest score, the sum of its weights and their mix of values; chunks are put together in order, as FlashAttention
does it (https://arxiv.org/abs/2205.14135).  So a row's result is the same bits whatever tile it lies in and however
the work was cut: where there are few rows, workers share the chunks of a row (https://arxiv.org/abs/2311.01282), and
the last to end puts them together.

A row is one head of one token; the heads that share a KV head lie in one tile.  What a row may see is compared by
position, without a mask; blocks that no row of a tile sees are never visited.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

from edgeinfer.simd_kernels.arithmetic import tanh
from edgeinfer.simd_kernels.emit import F32, I32, I64, Emitter, Value, vec
from edgeinfer.simd_kernels.kv import padded
from edgeinfer.simd_kernels.layout import BAND, BLOCK, CHUNK, FEW_QUERIES, HEAD_ROOM, NOTE, QUERIES, SCORES, SPLIT
from edgeinfer.simd_kernels.products import Codes, Floats, multiply
from edgeinfer.simd_kernels.record import ATTEND, STEP
from edgeinfer.simd_kernels.rows import WIDE, get, put, sweep

TOGETHER = 4 * BLOCK  # keys whose values are mixed dim by dim
NOTHING = -1e30  # a maximum below all scores
# Chunks a worker takes at a time where they are shared: at most, and so few that each has so many turns.
SHARE, TURNS = 4, 8


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
            bands = (rows + (BAND - 1)) / BAND
            begin, end = self._chunks(e, r, s, first, count)
            most, few = QUERIES[e.tier.lanes], rows <= FEW_QUERIES
            sizes = [(FEW_QUERIES, few), (most, rows > FEW_QUERIES)] if most > FEW_QUERIES else [(most, rows > 0)]
            share = self._share(e, end - begin, bands * r.kv_heads, s.tokens, threads)
            parts = (end - begin + share - 1) / share
            for size, wanted in sizes:
                with e.when(wanted), e.forever() as leave:
                    item = claimed.get() - before.get()
                    leave(item >= bands * r.kv_heads * parts)
                    unit = item / parts
                    start = (bands - 1 - unit / r.kv_heads) * BAND
                    head = unit - unit / r.kv_heads * r.kv_heads
                    chunk = begin + (item - unit * parts) * share
                    final = e.field(s.positions + (first + count - 1) * 8, 0)
                    of = Rows(first, start, e.least(rows - start, BAND), head, final)
                    Band(e, self, r, s, scratch, size, of).run(chunk, e.least(chunk + share, end), parts)
                    claimed.set(e.claim(r.counter))
            before.set(before.get() + bands * r.kv_heads * parts)

    def _chunks(
        self, e: Emitter, r: SimpleNamespace, s: SimpleNamespace, first: Value, count: Value
    ) -> tuple[Value, Value]:
        """Chunks begin..end - 1 are what the rows of a sequence see."""
        start, last = (e.field(s.positions + row * 8, 0) for row in (first, first + count - 1))
        _, earliest = self.seen(e, r, start, last)
        return earliest / CHUNK, self.seen(e, r, last, last)[0] / CHUNK + 1

    def _share(self, e: Emitter, chunks: Value, units: Value, tokens: Value, threads: Value) -> Value:
        """How many chunks of a band a worker takes at a time: all where there are enough bands."""
        each = e.least(chunks * units / (threads * TURNS), SHARE)
        return e.select(tokens <= SPLIT, e.select(each > 1, each, 1), chunks)

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
    """Up to BAND query rows that go through the chunks together, `size` rows at a time: a tile.

    What is noted of a row, of one chunk or of all so far, is its maximum and sum, in 64 bytes, and behind them the mix
    of values."""

    def __init__(
        self, e: Emitter, attend: Attend, r: SimpleNamespace, s: SimpleNamespace, scratch: Value, size: int, of: Rows
    ) -> None:
        self.e, self.attend, self.r, self.s, self.size, self.of = e, attend, r, s, size, of
        self.table = e.field(r.tables + of.first * 8, 0)
        self.keys = r.pool + of.head * r.head_bytes
        self.values = self.keys + r.value_at
        self.note_bytes = padded(r.value_dim) * 4 + 64
        self.q = scratch  # what the products make of the queries, HEAD_ROOM * 4 bytes a row
        self.totals = self.q + BAND * HEAD_ROOM * 4  # notes of all chunks so far
        self.notes = self.totals + BAND * NOTE  # a tile's, of one chunk
        self.scores = self.notes + size * NOTE  # f32[size][SCORES], then weights
        self.spare = self.scores + size * SCORES * 4  # f32[size][16]
        self.rows = self.spare + size * 64  # 64 bytes each: last and first position seen, its own, slope f32
        plain = attend.kv_type != "q8_0"
        self.products = Floats(e, r, size, attend.kv_type) if plain else Codes(e, r, size, self.spare)

    def run(self, chunk: Value, end: Value, parts: Value) -> None:
        """Take the rows through chunks chunk..end - 1; `parts` workers do so, the last of which puts it together."""
        e, size = self.e, self.size
        tiles = (self.of.count + (size - 1)) / size
        with e.loop(0, tiles * size) as i:
            self._prepare(i)
        begin, stop = e.field(self.rows, 1) & -CHUNK, e.field(self.rows + (self.of.count - 1) * 64, 0) + 1
        with e.loop(e.maximum(chunk * CHUNK, begin), e.least(end * CHUNK, stop), CHUNK) as base:
            with e.loop(0, tiles) as tile:
                self._tile(tile, base)
                first = tile * size
                with e.loop(first, e.least(first + size, self.of.count)) as i, self._visible(i, base):
                    note = self.notes + (i - first) * self.note_bytes
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
                    with e.loop(begin, stop, CHUNK) as base, self._visible(i, base):
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
        e, r, size = self.e, self.r, self.size
        row, valid = e.least(i, self.of.count - 1), i < self.of.count
        tile = i / size
        place = self.q + tile * (size * HEAD_ROOM * 4)
        self.products.query(self._source(row, r.q, r.q_stride, r.key_dim), place, i - tile * size)
        token, head = self._token(row)
        position = e.field(self.s.positions + token * 8, 0)
        last, earliest = self.attend.seen(e, r, position, self.of.final)
        state = self.rows + i * 64
        e.store(e.select(valid, last, -1), state)
        e.store(earliest, state + 8)
        if "slopes" in self.attend.extras:
            e.store(position, state + 16)
            e.store(e.load(r.slopes + head * 4, F32), state + 24)
        sinks = "sinks" in self.attend.extras  # a sink is a key whose score is given and whose value is zero
        total = self.totals + i * self.note_bytes
        with e.loop(64, self.note_bytes, 64) as at:
            e.store(e.const(WIDE), total + at)
        e.store(e.load(r.sinks + head * 4, F32) if sinks else e.const(F32, NOTHING), total)
        e.store(e.const(F32, 1.0 if sinks else 0.0), total + 4)

    def _tile(self, tile: Value, base: Value) -> None:
        """Notes of a tile's rows and a chunk, by the blocks that any of the rows sees."""
        e, size = self.e, self.size
        first, final = tile * size, e.least(tile * size + size, self.of.count) - 1
        earliest, last = e.field(self.rows + first * 64, 1), e.field(self.rows + final * 64, 0)
        begin, end = e.maximum(earliest & -BLOCK, base), e.least(last + 1, base + CHUNK)
        with e.when(begin < end):
            self._scores(tile, base, begin, end)
            with e.loop(0, size) as i:
                self._soften(first + i, i, base, begin, end)
            self._mix(base, begin, end)

    def _scores(self, tile: Value, base: Value, begin: Value, end: Value) -> None:
        e, vectors = self.e, self.products.vectors
        q = self.q + tile * (self.size * HEAD_ROOM * 4)
        with e.loop(begin, end, BLOCK * vectors) as key:
            keys = [e.least(key + BLOCK * j, (end - 1) & -BLOCK) for j in range(vectors)]
            blocks = [self.keys + self._block(at) * self.r.key_bytes for at in keys]
            self.products.scores(q, blocks, self.scores + (key - base) * 4)

    def _soften(self, i: Value, lane: Value, base: Value, begin: Value, end: Value) -> None:
        """Scores of row `lane` of the tile, row i of the band, become weights exp(score - maximum)."""
        e, extras = self.e, self.attend.extras
        state, scores = self.rows + i * 64, self.scores + lane * (SCORES * 4)
        last, earliest = e.field(state, 0), e.field(state, 1)
        numbers = e.const(vec(I32, 16), range(16))
        tops, sums = e.var(WIDE, NOTHING), e.var(WIDE)
        with e.loop(begin, end, BLOCK) as key:
            place = scores + (key - base) * 4
            score = e.load(place, WIDE)
            until, since = (e.splat(e.narrow(limit - key, I32), 16) for limit in (last, earliest))
            if "cap" in extras:
                cap = e.splat(self.r.cap_f32, 16)
                score = tanh(e, score / cap) * cap
            if "slopes" in extras:
                away = e.size(e.to_float(e.splat(e.narrow(e.field(state, 2) - key, I32), 16) - numbers))
                score = score - e.splat(e.load(state + 24, F32), 16) * away
            score = e.select((numbers <= until) & (numbers >= since), score, float("-inf"))
            tops.set(e.maximum(score, tops.get()))
            e.store(score, place)
        top = e.largest(tops.get())
        with e.loop(begin, end, BLOCK) as key:
            place = scores + (key - base) * 4
            weight = e.exp(e.load(place, WIDE) - e.splat(top, 16))
            sums.set(sums.get() + weight)
            e.store(weight, place)
        note = self.notes + lane * self.note_bytes
        e.store(top, note)
        e.store(e.total(sums.get()), note + 4)

    def _mix(self, base: Value, begin: Value, end: Value) -> None:
        """The values of a chunk, weighed by each row's weights, into the notes.

        Some blocks at a time give all their dims, so that these are read from memory in order."""
        e, r, products, width = self.e, self.r, self.products, padded(self.r.value_dim)
        vectors = products.vectors
        mixes = [self.notes + self.note_bytes * i + 64 for i in range(self.size)]
        with e.loop(0, width, 16) as d:
            for mix in mixes:
                e.store(e.const(WIDE), mix + d * 4)
        with e.loop(begin, end, TOGETHER) as some, e.loop(0, width, 16 * vectors) as d:
            places = [[mix + (d + 16 * j) * 4 for j in range(vectors)] for mix in mixes]
            sums = [[e.var(WIDE, e.load(place, WIDE)) for place in row] for row in places]
            with e.loop(some, e.least(some + TOGETHER, end), BLOCK) as key:
                block = self.values + self._block(key) * r.value_bytes
                weights = products.weights(block, self.scores + (key - base) * 4, d)
                with e.loop(0, e.least(end - key, BLOCK)) as n:
                    multiply(e, sums, weights + n * 4, products.apart, products.values(block, n, d))
            for row, totals in zip(places, sums, strict=True):
                for place, total in zip(row, totals, strict=True):
                    e.store(total.get(), place)

    def _add(self, i: Value, note: Value) -> None:
        """Put a chunk's note to a row's total."""
        e, total = self.e, self.totals + i * self.note_bytes
        tops = [e.load(x, F32) for x in (total, note)]
        top = e.maximum(*tops)
        old, new = (e.exp(e.splat(x - top, 16)) for x in tops)
        sums = e.load(total + 4, F32) * e.lane(old, 0) + e.load(note + 4, F32) * e.lane(new, 0)
        e.store(top, total)
        e.store(sums, total + 4)
        with e.loop(64, self.note_bytes, 64) as at:
            mix = e.fma(e.load(note + at, WIDE), new, e.load(total + at, WIDE) * old)
            e.store(mix, total + at)

    def _finish(self, i: Value) -> None:
        e, r = self.e, self.r
        total, out = self.totals + i * self.note_bytes, self._source(i, r.out, r.out_stride, r.value_dim)
        factor = e.splat(e.const(F32, 1.0) / e.load(total + 4, F32), 16)
        sweep(e, r.value_dim, lambda k, mask: put(e, get(e, total + 64 + k * 4, mask) * factor, out + k * 4, mask))
