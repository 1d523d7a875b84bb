"""Query rows that go through the keys together: their products with keys and values, and what comes of them.

A chunk gives a row its largest score, the sum of its weights and their mix of values; chunks are put together in order,
as FlashAttention does it (https://arxiv.org/abs/2205.14135).  Blocks that no row of a tile sees are never visited.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

from edgeinfer.simd_kernels.arithmetic import log
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.kv import padded
from edgeinfer.simd_kernels.layout import BAND, BLOCK, CHUNK, FEW_QUERIES, PANEL, QUERIES, ROW, VECTORS
from edgeinfer.simd_kernels.products import LOG2E, Ahead, Codes, Floats, Lines, Panel, asking, product
from edgeinfer.simd_kernels.rows import WIDE, get, put, sweep
from edgeinfer.simd_kernels.scores import NOTHING, Scores, power, seen
from edgeinfer.simd_kernels.values import F32, I32, I64, Value


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
        self,
        e: Emitter,
        kv_type: str,
        extras: tuple[str, ...],
        r: SimpleNamespace,
        s: SimpleNamespace,
        scratch: Value,
        of: Rows,
    ) -> None:
        self.e, self.extras, self.r, self.s, self.of = e, extras, r, s, of
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
        scores = self.notes + BAND * ROW
        self.scores = Scores(e, r, extras, of.head, self.width, scores, scores + BAND * ROW)
        self.products = Codes(e, r) if kv_type == "q8_0" else Floats(e, r, kv_type)

    def run(self, chunk: Value, end: Value, parts: Value, ahead: Value) -> None:
        """Take the rows through chunks chunk..end - 1; `parts` workers do so, the last of which puts it together.
        ahead: bytes from these keys to those that are read after the last chunk."""
        e = self.e
        with e.loop(0, self.tiles * self.size) as i:
            self._prepare(i)
        begin, stop = self.scores.span(e.const(I64, 0), self.of.count)
        first = e.maximum(chunk * CHUNK, begin & -CHUNK)
        later = self.keys + self._block(e.maximum(begin, first)) * self.r.key_bytes + ahead
        with e.loop(first, e.least(end * CHUNK, stop), CHUNK) as base:
            self._chunk(base, e.maximum(begin, base), e.least(stop, base + CHUNK), base + CHUNK < stop, later)
            with e.loop(0, self.of.count) as i, self.scores.visible(i, base):
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
                    with e.loop(begin & -CHUNK, stop, CHUNK) as base, self.scores.visible(i, base):
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
        position = e.field(self.r.positions + token * 8, 0)
        last, earliest = seen(e, r, self.extras, position, self.of.final)
        self.scores.note(i, token, head, position, e.select(valid, last, -1), earliest)
        sinks = "sinks" in self.extras  # a sink is a key whose score is given and whose value is zero
        total = self.totals + i * ROW
        with e.loop(64, self.note_bytes, 64) as at:
            e.store(e.const(WIDE), total + at)
        e.store(e.load(r.sinks + head * 4, F32) * LOG2E if sinks else e.const(F32, NOTHING), total)
        e.store(e.const(F32, 1.0 if sinks else 0.0), total + 4)

    def _chunk(self, base: Value, begin: Value, end: Value, more: Value, later: Value) -> None:
        """Notes of the rows and the chunk at `base`, of which they see begin..end - 1; `more`: another one follows,
        where not, what is read next are the keys at `later`."""
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
            self.scores.hide(i, base, *whole, self.notes + i * ROW)
        with e.loop(0, self.of.count) as i:
            self.scores.weigh(i, base, *whole, self.notes + i * ROW)
        aheads = [self._ahead(e.select(more, self.keys + following * r.key_bytes, later), r.key_bytes)]
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
            since, until = self.scores.span(first, e.least(first + rows, self.of.count))
            with e.when((since < end) & (until > begin)):
                body(first, since, until)

    def _multiply_codes(self, products: Codes, base: Value, key: Value, blocks: list[Value]) -> None:
        for rows, wanted in self.sizes:

            def scores(first: Value, since: Value, until: Value, rows: int = rows) -> None:
                products.scores(rows, self.q + first * ROW, blocks, self.scores.place + first * ROW + (key - base) * 4)

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
                out, q = self.scores.place + first * ROW + (key - base) * 4, self.q + first * ROW
                product(e, rows, out, start <= 0, q, lines)

            with e.when(if_few):
                self._tiles(few, key, key + self.width, partial(scores, few, read))
            with e.when(if_many):
                panel = Panel(e, self.panel, start)
                read(panel.put)
                self._tiles(many, key, key + self.width, partial(scores, many, panel.lines(start, stop)))

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
                product(e, rows, out, fresh, self.scores.place + first * ROW, seen)

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
        sum_ = e.load(total + 4, F32)
        inverse = e.const(F32, 1.0) / sum_
        if "logs" in self.extras:  # a row that sees nothing is 0, and its weights sum to that
            inverse = e.select(sum_ <= 0.0, e.const(F32), inverse)
            each = e.lane(log(e, e.splat(sum_, 1)), 0) + e.load(total, F32) * math.log(2)
            token, head = self._token(i)
            logs = r.out + token * r.out_stride + (r.group * r.kv_heads * r.value_dim + head) * 4
            e.store(e.select(sum_ <= 0.0, e.const(F32, float("-inf")), each), logs)
        factor = e.splat(inverse, 16)
        sweep(e, r.value_dim, lambda k, mask: put(e, get(e, total + 64 + k * 4, mask) * factor, out + k * 4, mask))
