"""Attention over the KV cache (kv.py has its layout).

Keys are taken in chunks of CHUNK positions, which begin at multiples of CHUNK whoever looks, and what these give is put
together in order (band.py).  So a row's result is the same bits whatever tile it lies in and however the work was cut:
where there are few rows, workers share the chunks of a row (https://arxiv.org/abs/2311.01282), and the last to end puts
them together.

A row is one head of one token; the heads that share a KV head lie side by side.
"""

from types import SimpleNamespace

from edgeinfer.simd_kernels.band import Band, Rows
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import BAND, CHUNK, SPLIT
from edgeinfer.simd_kernels.record import ATTEND, STEP
from edgeinfer.simd_kernels.rows import Claims
from edgeinfer.simd_kernels.scores import seen
from edgeinfer.simd_kernels.values import I64, Value

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
        claims = Claims(e, r.counter)
        with e.loop(0, s.span_count) as i:
            first, count = e.field(s.spans + i * 16, 0), e.field(s.spans + i * 16, 1)
            rows = count * r.group
            band = self._band(e, rows * r.kv_heads, s.tokens, threads)
            bands = (rows + (band - 1)) / band
            begin, end = self._chunks(e, r, s, first, count)
            share = self._share(e, end - begin, bands * r.kv_heads, s.tokens, threads)
            parts = (end - begin + share - 1) / share
            with claims.of(bands * r.kv_heads * parts) as item:
                unit = item / parts
                start = (bands - 1 - unit / r.kv_heads) * band
                head = unit - unit / r.kv_heads * r.kv_heads
                chunk = begin + (item - unit * parts) * share
                final = e.field(r.positions + (first + count - 1) * 8, 0)
                of = Rows(first, start, e.least(rows - start, band), head, final)
                ahead = e.select(parts <= 1, threads * r.head_bytes, 0)  # to the head this worker is likely to claim
                band_of = Band(e, self.kv_type, self.extras, r, s, scratch, of)
                band_of.run(chunk, e.least(chunk + share, end), parts, ahead)

    def _chunks(
        self, e: Emitter, r: SimpleNamespace, s: SimpleNamespace, first: Value, count: Value
    ) -> tuple[Value, Value]:
        """Chunks begin..end - 1 are what the rows of a sequence see."""
        start, last = (e.field(r.positions + row * 8, 0) for row in (first, first + count - 1))
        _, earliest = seen(e, r, self.extras, start, last)
        return earliest / CHUNK, seen(e, r, self.extras, last, last)[0] / CHUNK + 1

    def _band(self, e: Emitter, rows: Value, tokens: Value, threads: Value) -> Value:
        """How many rows go through the chunks together: fewer than BAND where a worker would have too few turns."""
        each = e.least(rows / (threads * (TURNS * WHOLE)) * WHOLE, BAND)
        return e.select(tokens <= SPLIT, e.const(I64, BAND), e.maximum(each, e.const(I64, WHOLE)))

    def _share(self, e: Emitter, chunks: Value, units: Value, tokens: Value, threads: Value) -> Value:
        """How many chunks of a band a worker takes at a time: all where there are enough bands."""
        each = e.least(chunks * units / (threads * TURNS), SHARE)
        return e.select((tokens <= SPLIT) & (threads > 1), e.select(each > 1, each, 1), chunks)
