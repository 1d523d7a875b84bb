"""The choice of positions that attention looks at: a score for each from an indexer's heads, and the best of them."""

from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.kv import padded
from edgeinfer.simd_kernels.layout import BLOCK, CHUNK, FEW
from edgeinfer.simd_kernels.record import CHOOSE, RATE, STEP
from edgeinfer.simd_kernels.rows import WIDE, my_rows
from edgeinfer.simd_kernels.values import F32, I16, I32, I64, Value, vec

HEADS = 4  # whose sums are in registers together
INTS = vec(I32, BLOCK)
ALL = float(2**BLOCK - 1)  # the number that says that a whole block is chosen


class Rate:
    """out[position] = sum over heads of w * relu(q . k[position]), -inf behind the row's own position."""

    def __init__(self, kv_type: str) -> None:
        self.kv_type = kv_type

    def body(self, e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        """Workers claim (sequence, a few of its rows, chunk of its positions)."""
        r, s = RATE.read(e, op), STEP.read(e, step)
        panel = s.scratch + thread * s.scratch_bytes
        claimed, before = e.var(I64, e.claim(r.counter)), e.var(I64)
        with e.loop(0, s.span_count) as i:
            first, count = e.field(s.spans + i * 16, 0), e.field(s.spans + i * 16, 1)
            final = e.field(s.positions + (first + count - 1) * 8, 0)
            chunks, bands = final / CHUNK + 1, (count + (FEW - 1)) / FEW
            with e.forever() as leave:
                item = claimed.get() - before.get()
                leave(item >= chunks * bands)
                band = item / chunks
                start, base = first + band * FEW, (item - band * chunks) * CHUNK
                stop = e.least(first + count, start + FEW)
                with e.loop(base, e.least(base + CHUNK, final + 1), BLOCK) as key:
                    table = e.field(r.tables + first * 8, 0)
                    number = e.widen(e.load(table + (key >> 4) * 4, I32), I64)
                    self._unpack(e, r, r.pool + number * r.key_bytes, panel)
                    with e.loop(start, stop) as row:
                        rate_block(e, r, row, key, e.field(s.positions + row * 8, 0), panel)
                claimed.set(e.claim(r.counter))
            before.set(before.get() + chunks * bands)

    def _unpack(self, e: Emitter, r: SimpleNamespace, keys: Value, panel: Value) -> None:
        """The keys of a block as f32[key_dim][16] at `panel`."""
        if self.kv_type == "q8_0":
            with e.loop(0, padded(r.key_dim), 4) as d:
                scales = e.load(keys + padded(r.key_dim) * BLOCK + (d >> 5) * (2 * BLOCK), vec(I16, BLOCK))
                words = e.load(keys + d * BLOCK, INTS)
                for i in range(4):
                    codes = e.to_float(((words >> 8 * i) & 255) - 128)
                    e.store(codes * e.half_to_float(scales), panel + (d + i) * 64)
            return
        with e.loop(0, r.key_dim) as d:
            if self.kv_type == "f16":
                e.store(e.half_to_float(e.load(keys + d * (2 * BLOCK), vec(I16, BLOCK))), panel + d * 64)
            else:
                e.store(e.load(keys + d * (4 * BLOCK), WIDE), panel + d * 64)


def rate_block(e: Emitter, r: SimpleNamespace, row: Value, key: Value, position: Value, panel: Value) -> None:
    """Scores of the 16 positions from `key` on, for one row."""
    q, w = r.q + row * r.q_stride, r.w + row * r.w_stride
    total = e.var(WIDE)

    def add(head: Value, count: int) -> None:
        sums = [e.var(WIDE) for _ in range(count)]
        with e.loop(0, r.key_dim) as d:
            line = e.load(panel + d * 64, WIDE)
            for i, one in enumerate(sums):
                one.set(e.fma(e.splat(e.load(q + ((head + i) * r.key_dim + d) * 4, F32), 16), line, one.get()))
        for i, one in enumerate(sums):
            product = one.get()
            product = e.select(product < 0.0, e.const(WIDE), product)
            total.set(e.fma(e.splat(e.load(w + (head + i) * 4, F32), 16), product, total.get()))

    whole = r.heads & -HEADS
    with e.loop(0, whole, HEADS) as head:
        add(head, HEADS)
    with e.loop(whole, r.heads) as head:
        add(head, 1)
    seen = e.const(INTS, range(BLOCK)) <= e.splat(e.narrow(position - key, I32), BLOCK)
    e.store(e.select(seen, total.get(), float("-inf")), r.out + row * r.out_stride + key * 4)


def choose(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """out: for each 16 positions a number whose bits say which of them are among the `most` best.

    The score of the last one chosen is found bit by bit: of floats as whole numbers in the same order."""
    r, s = CHOOSE.read(e, op), STEP.read(e, step)
    with my_rows(e, op, thread, threads) as row:
        x, out = r.x + row * r.x_stride, r.out + row * r.out_stride
        count = e.field(s.positions + row * 8, 0) + 1
        with e.when(count <= r.most), e.loop(0, count, BLOCK) as key:
            e.store(e.const(F32, ALL), out + (key >> 4) * 4)
        with e.when(count > r.most):
            least = threshold(e, x, count, r.most)
            mark(e, x, out, count, least, r.most - reaching(e, x, count, least + 1))


def ordered(e: Emitter, x: Value) -> Value:
    """i32 in the order of the f32 at x, 16 of them; +0 is added to have one zero only."""
    bits = e.bits(e.load(x, WIDE) + 0.0, INTS)
    return e.select(bits < 0, bits ^ 0x7FFFFFFF, bits)


def reaching(e: Emitter, x: Value, count: Value, least: Value) -> Value:
    """How many of the `count` numbers at x, in blocks filled up with -inf, come to `least`, i64 in their order."""
    total, bound = e.var(INTS), e.splat(e.narrow(least, I32), BLOCK)
    with e.loop(0, count, BLOCK) as key:
        total.set(total.get() + e.select(ordered(e, x + key * 4) >= bound, e.const(INTS, 1), 0))
    return e.widen(e.total(total.get()), I64)


def threshold(e: Emitter, x: Value, count: Value, most: Value) -> Value:
    """The largest number, i64 in the order of scores, that `most` of them come to."""
    found, bit = e.var(I64, -(2**31)), e.var(I64, 2**31)
    with e.loop(0, 32):
        tried = found.get() + bit.get()
        found.set(e.select(reaching(e, x, count, tried) >= most, tried, found.get()))
        bit.set(bit.get() >> 1)
    return found.get()


def mark(e: Emitter, x: Value, out: Value, count: Value, least: Value, equal: Value) -> None:
    """Those above `least`, and the first `equal` ones of those that are just that."""
    left, bound = e.var(I64, equal), e.splat(e.narrow(least, I32), BLOCK)
    bits = e.const(WIDE, [float(1 << i) for i in range(BLOCK)])
    with e.loop(0, count, BLOCK) as key:
        scores = ordered(e, x + key * 4)
        number = e.var(F32, e.total(e.select(scores > bound, bits, 0.0)))
        same = e.total(e.select(scores.equals(bound), bits, 0.0))
        rest = e.var(I64, e.widen(e.lane(e.to_int(e.splat(same, 1)), 0), I64))
        with e.forever() as leave:
            leave(rest.get().equals(0) | left.get().equals(0))
            first = rest.get() & -rest.get()
            number.set(number.get() + e.to_float(first))
            rest.set(rest.get() ^ first)
            left.set(left.get() - 1)
        e.store(number.get(), out + (key >> 4) * 4)
