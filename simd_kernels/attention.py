"""The KV cache's layout, writing to it, and attention over it.

A block holds 16 tokens of one layer.  For each KV head it has the keys as [key_dim][16], so that 16 tokens are the
lanes of a score, then the values as [16][value_dim], padded to a multiple of 32 dims, so that dims are the lanes of
the output; no sums across lanes anywhere.  q8_0 adds a half-float scale for every 32 dims of a token: keys
[key_dim / 32][16], values [16][value_dim / 32].  A sequence finds the block of position p at entry p / 16 of its table.

Attention is the online softmax of FlashAttention (https://arxiv.org/abs/2205.14135): tiles of query rows pass over
32 keys at a time; a row is one head of one token, the heads that share a KV head lie in one tile.  What a row may
see is compared by position, without a mask.
"""

from types import SimpleNamespace

from edgeinfer.simd_kernels.arithmetic import tanh
from edgeinfer.simd_kernels.emit import F32, I8, I16, I32, I64, Emitter, Value, vec
from edgeinfer.simd_kernels.layout import BLOCK, KEYS, ROOM
from edgeinfer.simd_kernels.layout import KV_BYTES as BYTES
from edgeinfer.simd_kernels.record import ATTEND, STEP, STORE
from edgeinfer.simd_kernels.rows import WIDE, get, my_rows, put, sweep


class Store:
    """Append the step's keys and values to the cache."""

    def __init__(self, kv_type: str) -> None:
        self.kv_type = kv_type

    def body(self, e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        r, s = STORE.read(e, op), STEP.read(e, step)
        with my_rows(e, op, thread, threads) as row:
            position = e.field(s.positions + row * 8, 0)
            number = e.widen(e.load(e.field(r.tables + row * 8, 0) + (position >> 4) * 4, I32), I64)
            slot = position & (BLOCK - 1)
            with e.loop(0, r.kv_heads) as head:
                home = r.pool + number * r.block_bytes + head * r.head_bytes
                k = r.k + row * r.k_stride + head * r.key_dim * 4
                v = r.v + row * r.v_stride + head * r.value_dim * 4
                store = self._quantised if self.kv_type == "q8_0" else self._plain
                store(e, r, home, slot, k, v)

    def _plain(self, e: Emitter, r: SimpleNamespace, home: Value, slot: Value, k: Value, v: Value) -> None:
        size = BYTES[self.kv_type]
        with e.loop(0, r.key_dim) as d:
            e.store(self._number(e, e.load(k + d * 4, vec(F32, 1))), home + (d * BLOCK + slot) * size)
        values = home + r.value_at + slot * padded(r) * size
        with e.loop(0, r.value_dim) as d:
            e.store(self._number(e, e.load(v + d * 4, vec(F32, 1))), values + d * size)

    def _number(self, e: Emitter, x: Value) -> Value:
        return e.float_to_half(x) if self.kv_type == "f16" else x

    def _quantised(self, e: Emitter, r: SimpleNamespace, home: Value, slot: Value, k: Value, v: Value) -> None:
        key_scales = home + r.key_dim * BLOCK
        self._codes(e, k, r.key_dim, home + slot, BLOCK, key_scales + slot * 2, BLOCK * 2)
        values, width = home + r.value_at, padded(r)
        scales = values + width * BLOCK + slot * (width >> 5) * 2
        self._codes(e, v, r.value_dim, values + slot * width, 1, scales, 2)

    def _codes(
        self, e: Emitter, x: Value, dims: Value, codes: Value, stride: int, scales: Value, scale_stride: int
    ) -> None:
        """Codes, `stride` bytes apart, and a scale for each 32 of them, as Q8_0 has it."""
        with e.loop(0, dims, 32) as start:
            stop = e.least(start + 32, dims)
            top = e.var(F32)
            with e.loop(start, stop) as d:
                size = e.bits(e.bits(e.load(x + d * 4, F32), I32) & 0x7FFFFFFF, F32)
                top.set(e.maximum(size, top.get()))
            scale = top.get() * (1.0 / 127)
            e.store(e.float_to_half(e.splat(scale, 1)), scales + (start >> 5) * scale_stride)
            inverse = e.splat(e.select(scale > 0.0, e.const(F32, 1.0) / scale, 0.0), 1)
            with e.loop(start, stop) as d:
                code = e.to_int(e.round(e.load(x + d * 4, vec(F32, 1)) * inverse))
                e.store(e.narrow(code, vec(I8, 1)), codes + d * stride)


def padded(r: SimpleNamespace) -> Value:
    """value_dim up to a multiple of 32"""
    padding: Value = (r.value_dim + 31) & -32
    return padding


class Attend:
    """out = softmax(q . k^T * scale) . v for every head of every row."""

    def __init__(self, kv_type: str, extras: tuple[str, ...] = ()) -> None:
        self.kv_type, self.extras = kv_type, extras

    def body(self, e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        """Workers claim (sequence, KV head, tile of rows), the tiles that see most keys first."""
        r, s = ATTEND.read(e, op), STEP.read(e, step)
        scratch = s.scratch + thread * s.scratch_bytes
        claimed, before = e.var(I64, e.claim(r.counter)), e.var(I64)
        big = 8 if e.tier.lanes == 16 else 4
        with e.loop(0, s.span_count) as i:
            first, count = e.field(s.spans + i * 16, 0), e.field(s.spans + i * 16, 1)
            rows = count * r.group
            for size, wanted in ((4, rows <= 4), (big, rows > 4)):
                with e.when(wanted):
                    tiles = (rows + (size - 1)) / size
                    items = tiles * r.kv_heads
                    with e.forever() as leave:
                        item = claimed.get() - before.get()
                        leave(item >= items)
                        tile = tiles - 1 - item / r.kv_heads
                        head = item - (item / r.kv_heads) * r.kv_heads
                        Tile(e, self, r, s, scratch, size).run(first, rows, tile * size, head)
                        claimed.set(e.claim(r.counter))
                    before.set(before.get() + items)


class Tile:
    """`size` query rows of one KV head.  Row i is head i % group (of those sharing the KV head) of token i / group
    of the sequence."""

    def __init__(
        self, e: Emitter, attend: Attend, r: SimpleNamespace, s: SimpleNamespace, scratch: Value, size: int
    ) -> None:
        self.e, self.kv_type, self.extras, self.r, self.s, self.size = e, attend.kv_type, attend.extras, r, s, size
        self.q = scratch  # f32[size][ROOM]
        self.out = scratch + 8 * ROOM * 4  # f32[size][ROOM]
        self.p = self.out + 8 * ROOM * 4  # f32[size][KEYS]: scores, then weights
        # For each row 64 bytes: last position seen, first position seen, maximum f32, sum f32, slope f32, at 32 its
        # own position.
        self.state = self.p + 8 * KEYS * 4
        self.vectors = 2 if e.tier.lanes == 16 else 1  # of 16 keys or dims, side by side in registers

    def run(self, first: Value, rows: Value, start: Value, head: Value) -> None:
        e, r = self.e, self.r
        stop = e.least(start + self.size, rows)
        final = e.field(self.s.positions + (first + rows / r.group - 1) * 8, 0)  # of the sequence in this step
        with e.loop(0, self.size) as i:
            self._prepare(first, i, start + i, stop, head, final)
        # Positions rise with the rows: the last row sees farthest, the first row farthest back.
        last = e.field(self.state + (stop - start - 1) * 64, 0) + 1
        earliest = e.field(self.state, 1)
        table = e.field(r.tables + first * 8, 0)
        with e.loop(earliest & -KEYS, last, KEYS) as key:
            homes = [
                self._home(table, e.least(key + BLOCK * j, (last - 1) & -BLOCK), head) for j in range(KEYS // BLOCK)
            ]
            self._scores(homes)
            with e.loop(0, self.size) as i:
                self._soften(i, key)
            self._mix(homes, e.least(e.const(I64, KEYS), last - key))
        with e.loop(start, stop) as row:
            self._finish(first, row, row - start, head)

    def _home(self, table: Value, key: Value, head: Value) -> Value:
        """Address of the KV head's part of the block that holds position `key`."""
        number = self.e.widen(self.e.load(table + (key >> 4) * 4, I32), I64)
        home: Value = self.r.pool + number * self.r.block_bytes + head * self.r.head_bytes
        return home

    def _source(self, base: Value, stride: Value, width: Value, first: Value, row: Value, head: Value) -> Value:
        token = row / self.r.group
        return base + (first + token) * stride + (head * self.r.group + row - token * self.r.group) * width * 4

    def _prepare(self, first: Value, i: Value, row: Value, stop: Value, head: Value, final: Value) -> None:
        """Copy the scaled query, clear the output, note what the row sees; rows past the end see nothing."""
        e, r = self.e, self.r
        valid = row < stop
        row = e.select(valid, row, stop - 1)
        q = self._source(r.q, r.q_stride, r.key_dim, first, row, head)
        factor = e.splat(r.scale_f32, 16)
        sweep(
            e,
            r.key_dim,
            lambda k, mask: put(e, get(e, q + k * 4, mask) * factor, self.q + i * (ROOM * 4) + k * 4, mask),
        )
        with e.loop(0, padded(r), 16) as k:
            e.store(e.const(WIDE), self.out + i * (ROOM * 4) + k * 4)
        position = e.field(self.s.positions + (first + row / r.group) * 8, 0)
        earliest = position - r.window + 1
        seen = e.select(r.window > 0, e.select(earliest > 0, earliest, 0), e.const(I64, 0))
        if "chunk" in self.extras:
            begin = position / r.chunk * r.chunk
            seen = e.select(begin > seen, begin, seen)
        state = self.state + i * 64
        e.store(e.select(valid, e.least(position + r.ahead, final), -1), state)
        e.store(seen, state + 8)
        e.store(position, state + 32)
        number = (head * r.group + row - row / r.group * r.group) * 4  # of the query's head
        sinks = "sinks" in self.extras  # a sink is a key whose score is given and whose value is zero
        e.store(e.load(r.sinks + number, F32) if sinks else e.const(F32, -1e30), state + 16)
        e.store(e.const(F32, 1.0 if sinks else 0.0), state + 20)
        if "slopes" in self.extras:
            e.store(e.load(r.slopes + number, F32), state + 24)

    def _scores(self, homes: list[Value]) -> None:
        """p[row][key] = q[row] . key for 32 keys, `vectors` blocks of 16 at a time."""
        e = self.e
        for at in range(0, len(homes), self.vectors):
            blocks = homes[at : at + self.vectors]
            sums = [[e.var(WIDE) for _ in blocks] for _ in range(self.size)]
            with e.loop(0, self.r.key_dim) as d:
                keys = [self._key(home, d) for home in blocks]
                for i in range(self.size):
                    one = e.splat(e.load(self.q + d * 4 + i * ROOM * 4, F32), 16)
                    for total, key in zip(sums[i], keys, strict=True):
                        total.set(e.fma(one, key, total.get()))
            for i in range(self.size):
                for j, total in enumerate(sums[i]):
                    e.store(total.get(), self.p + (i * KEYS + (at + j) * 16) * 4)

    def _key(self, home: Value, d: Value) -> Value:
        """Dim d of the 16 keys of a block, f32[16]."""
        e = self.e
        if self.kv_type == "q8_0":
            scales = e.half_to_float(e.load(home + self.r.key_dim * BLOCK + (d >> 5) * (BLOCK * 2), vec(I16, 16)))
            return e.to_float(e.widen_signed(e.load(home + d * BLOCK, vec(I8, 16)), vec(I32, 16))) * scales
        return self._floats(home + d * (BLOCK * BYTES[self.kv_type]))

    def _floats(self, address: Value) -> Value:
        if self.kv_type == "f16":
            return self.e.half_to_float(self.e.load(address, vec(I16, 16)))
        return self.e.load(address, WIDE)

    def _soften(self, i: Value, key: Value) -> None:
        """Scores of one row become exp(score - maximum so far); sums and outputs so far are scaled to the new
        maximum."""
        e = self.e
        state, p = self.state + i * 64, self.p + i * (KEYS * 4)
        last, earliest = e.field(state, 0), e.field(state, 1)
        scores = []
        for j in range(KEYS // 16):
            at = e.const(vec(I64, 16), range(16 * j, 16 * j + 16)) + e.splat(key, 16)
            seen = (at <= e.splat(last, 16)) & (at >= e.splat(earliest, 16))
            score = e.load(p + 64 * j, WIDE)
            if "cap" in self.extras:
                cap = e.splat(self.r.cap_f32, 16)
                score = tanh(e, score / cap) * cap
            if "slopes" in self.extras:
                away = e.size(e.to_float(e.splat(e.field(state, 4), 16) - at))
                score = score - e.splat(e.load(state + 24, F32), 16) * away
            scores.append(e.select(seen, score, float("-inf")))
        old = e.load(state + 16, F32)
        top = e.maximum(e.largest(e.maximum(*scores)), old)
        weights = [e.exp(score - e.splat(top, 16)) for score in scores]
        for j, weight in enumerate(weights):
            e.store(weight, p + 64 * j)
        shrink = e.lane(e.exp(e.splat(old - top, 16)), 0)
        e.store(e.load(state + 20, F32) * shrink + e.total(weights[0] + weights[1]), state + 20)
        e.store(top, state + 16)
        with e.when(top > old):
            out, factor = self.out + i * (ROOM * 4), e.splat(shrink, 16)
            with e.loop(0, padded(self.r), 16) as d:
                e.store(e.load(out + d * 4, WIDE) * factor, out + d * 4)

    def _mix(self, homes: list[Value], count: Value) -> None:
        """out[row] += sum of weight p[row][key] * value[key] over the first `count` keys."""
        e, r = self.e, self.r
        size = BYTES[self.kv_type]
        width = padded(r)
        with e.loop(0, width, 16 * self.vectors) as d:
            places = [
                [self.out + d * 4 + (i * ROOM + 16 * j) * 4 for j in range(self.vectors)] for i in range(self.size)
            ]
            sums = [[e.var(WIDE, e.load(place, WIDE)) for place in row] for row in places]
            for b, home in enumerate(homes):
                rest = count - BLOCK * b
                with e.loop(0, e.least(rest, e.const(I64, BLOCK))) as key:
                    values = home + r.value_at
                    row = values + (key * width + d) * size
                    scale = self._value_scale(values + width * BLOCK, key, width, d)
                    vectors = [self._value(row + 16 * j * size, scale) for j in range(self.vectors)]
                    for i in range(self.size):
                        one = e.splat(e.load(self.p + (key + BLOCK * b) * 4 + i * KEYS * 4, F32), 16)
                        for total, value in zip(sums[i], vectors, strict=True):
                            total.set(e.fma(one, value, total.get()))
            for row_places, row_sums in zip(places, sums, strict=True):
                for place, total in zip(row_places, row_sums, strict=True):
                    e.store(total.get(), place)

    def _value_scale(self, scales: Value, key: Value, width: Value, d: Value) -> Value | None:
        if self.kv_type != "q8_0":
            return None
        at = scales + (key * (width >> 5) + (d >> 5)) * 2
        return self.e.pick(self.e.half_to_float(self.e.load(at, vec(I16, 1))), [0] * 16)

    def _value(self, address: Value, scale: Value | None) -> Value:
        if scale is None:
            return self._floats(address)
        return self.e.to_float(self.e.widen_signed(self.e.load(address, vec(I8, 16)), vec(I32, 16))) * scale

    def _finish(self, first: Value, row: Value, i: Value, head: Value) -> None:
        e, r = self.e, self.r
        out = self._source(r.out, r.out_stride, r.value_dim, first, row, head)
        factor = e.splat(e.const(F32, 1.0) / e.load(self.state + i * 64 + 20, F32), 16)
        sweep(
            e,
            r.value_dim,
            lambda k, mask: put(e, get(e, self.out + i * (ROOM * 4) + k * 4, mask) * factor, out + k * 4, mask),
        )
