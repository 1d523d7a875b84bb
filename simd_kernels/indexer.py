"""The choice of positions that attention looks at: a score for each from an indexer's heads, and the best of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.kv import padded
from edgeinfer.simd_kernels.layout import BLOCK, CHUNK, FEW
from edgeinfer.simd_kernels.products import Floats
from edgeinfer.simd_kernels.record import CHOOSE, RATE, STEP
from edgeinfer.simd_kernels.rows import WIDE, Claims, my_rows
from edgeinfer.simd_kernels.values import F32, I16, I32, I64, Value, vec

HEADS = 4  # whose sums are in registers together
INTS = vec(I32, BLOCK)
ALL = float(2**BLOCK - 1)  # the number that says that a whole block is chosen


class Rate:
    """out[position] = sum over heads of w * relu(q . k[position]), or for each head q . k[position]; -inf behind the
    row's own position."""

    def __init__(self, kv_type: str, each: bool = False) -> None:
        self.kv_type, self.block = kv_type, rate_each if each else rate_block

    def body(self, e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        """Workers claim (sequence, a few of its rows, chunk of its positions)."""
        r, s = RATE.read(e, op), STEP.read(e, step)
        panel = s.scratch + thread * s.scratch_bytes
        claims = Claims(e, r.counter)
        with e.loop(0, s.span_count) as i:
            first, count = e.field(s.spans + i * 16, 0), e.field(s.spans + i * 16, 1)
            final = e.field(r.positions + (first + count - 1) * 8, 0)
            chunks, bands = final / CHUNK + 1, (count + (FEW - 1)) / FEW
            with claims.of(chunks * bands) as item:
                band = item / chunks
                start, base = first + band * FEW, (item - band * chunks) * CHUNK
                stop = e.least(first + count, start + FEW)
                with e.loop(base, e.least(base + CHUNK, final + 1), BLOCK) as key:
                    table = e.field(r.tables + first * 8, 0)
                    number = e.widen(e.load(table + (key >> 4) * 4, I32), I64)
                    self._unpack(e, r, r.pool + number * r.key_bytes, panel)
                    with e.loop(start, stop) as row:
                        self.block(e, r, row, key, e.field(r.positions + row * 8, 0), panel)

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
        floats = Floats(e, r, self.kv_type)
        with e.loop(0, r.key_dim) as d:
            (line,) = floats.keys([keys], d)
            e.store(line, panel + d * 64)


def products(e: Emitter, r: SimpleNamespace, q: Value, panel: Value, count: int) -> list[Value]:
    """q . k of so many heads with the 16 keys."""
    sums = [e.var(WIDE) for _ in range(count)]
    with e.loop(0, r.key_dim) as d:
        line = e.load(panel + d * 64, WIDE)
        for i, one in enumerate(sums):
            one.set(e.fma(e.splat(e.load(q + (r.key_dim * i + d) * 4, F32), 16), line, one.get()))
    return [one.get() for one in sums]


def seen(e: Emitter, scores: Value, key: Value, position: Value) -> Value:
    """Scores of the 16 positions from `key` on, -inf behind `position`."""
    before = e.const(INTS, range(BLOCK)) <= e.splat(e.narrow(position - key, I32), BLOCK)
    return e.select(before, scores, float("-inf"))


def rate_block(e: Emitter, r: SimpleNamespace, row: Value, key: Value, position: Value, panel: Value) -> None:
    """Scores of the 16 positions from `key` on, for one row."""
    q, w = r.q + row * r.q_stride, r.w + row * r.w_stride
    total, whole = e.var(WIDE), r.heads & -HEADS
    for start, stop, count in ((e.const(I64, 0), whole, HEADS), (whole, r.heads, 1)):
        with e.loop(start, stop, count) as head:
            for i, product in enumerate(products(e, r, q + head * r.key_dim * 4, panel, count)):
                product = e.select(product < 0.0, e.const(WIDE), product)
                total.set(e.fma(e.splat(e.load(w + (head + i) * 4, F32), 16), product, total.get()))
    e.store(seen(e, total.get(), key, position), r.out + row * r.out_stride + key * 4)


def rate_each(e: Emitter, r: SimpleNamespace, row: Value, key: Value, position: Value, panel: Value) -> None:
    """The same for each head by itself."""
    q, out = r.q + row * r.q_stride, r.out + row * r.out_stride + key * 4
    with e.loop(0, r.heads) as head:
        (product,) = products(e, r, q + head * r.key_dim * 4, panel, 1)
        e.store(seen(e, product, key, position), out + head * r.set_bytes)


@contextmanager
def my_sets(
    e: Emitter, op: Value, r: SimpleNamespace, thread: Value, threads: Value
) -> Iterator[tuple[Value, Value, Value]]:
    """(row, address of the scores, address of the numbers) of each set of each row this worker does."""
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.sets) as number:
        first = number * r.width
        yield row, r.x + row * r.x_stride + first * 4, r.out + row * r.out_stride + (first >> 4) * 4


def choose(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """out: for each 16 positions a number whose bits say which of them are among the `most` best."""
    r = CHOOSE.read(e, op)
    with my_sets(e, op, r, thread, threads) as (row, x, out):
        pick(e, x, out, e.field(r.positions + row * 8, 0) + 1, r.most)


def choose_blocks(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """The same for whole blocks of positions, whole blocks of 16: the best ones, and the last ones."""
    r, s = CHOOSE.read(e, op), STEP.read(e, step)
    values = s.scratch + thread * s.scratch_bytes
    chosen = values + r.width * 4
    with my_sets(e, op, r, thread, threads) as (row, x, out):
        position = e.field(r.positions + row * 8, 0)
        own = position / r.block
        with e.loop(0, own + 1) as block:
            top = e.var(WIDE, float("-inf"))
            with e.loop(block * r.block, e.least(block * r.block + r.block, position + 1), BLOCK) as key:
                top.set(e.maximum(e.load(x + key * 4, WIDE), top.get()))
            forced = block + r.local > own
            e.store(e.select(forced, e.const(F32, float("inf")), e.largest(top.get())), values + block * 4)
        with e.loop(own + 1, (own + BLOCK) & -BLOCK) as block:
            e.store(e.const(F32, float("-inf")), values + block * 4)
        pick(e, values, chosen, own + 1, r.most)
        with e.loop(0, position + 1, BLOCK) as key:
            block = key / r.block
            word = e.to_int(e.load(chosen + (block >> 4) * 4, F32))
            bit = (e.widen(word, I64) >> (block & 15)) & 1
            e.store(e.select(bit > 0, e.const(F32, ALL), 0.0), out + (key >> 4) * 4)


def choose_pools(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """The same for pools of positions, 16 or a part of them: the best whole ones, of which only the scores of the last
    positions count, and besides all of one that is not whole."""
    r, s = CHOOSE.read(e, op), STEP.read(e, step)
    ends = s.scratch + thread * s.scratch_bytes
    with my_sets(e, op, r, thread, threads) as (row, x, out):
        count = e.field(r.positions + row * 8, 0) + 1
        whole = count / r.block
        places = e.const(INTS, range(1, BLOCK + 1)) & e.splat(e.narrow(r.block - 1, I32), BLOCK)
        with e.loop(0, count, BLOCK) as key:
            e.store(e.select(places.equals(0), e.load(x + key * 4, WIDE), float("-inf")), ends + key * 4)
        with e.when(whole <= r.most), e.loop(0, count, BLOCK) as key:
            e.store(e.const(F32, ALL), out + (key >> 4) * 4)
        with e.when(whole > r.most):
            best(e, ends, out, count, r.most)
            begun = whole * r.block
            with e.loop(0, count, BLOCK) as key:
                word = e.var(I64, e.widen(e.to_int(e.load(out + (key >> 4) * 4, F32)), I64))
                for shift in (1, 2, 4, 8):  # from the last position to all of a pool
                    with e.when(r.block > shift):
                        word.set(word.get() | word.get() >> shift)
                with e.when((begun >= key) & (begun < key + BLOCK)):
                    word.set(word.get() | e.const(I64, int(ALL)) << (begun & 15) & int(ALL))
                e.store(e.to_float(word.get()), out + (key >> 4) * 4)


def pick(e: Emitter, x: Value, out: Value, count: Value, most: Value) -> None:
    """Numbers whose bits say which of `count` scores, in blocks filled up with -inf, are among the best."""
    with e.when(count <= most), e.loop(0, count, BLOCK) as key:
        e.store(e.const(F32, ALL), out + (key >> 4) * 4)
    with e.when(count > most):
        best(e, x, out, count, most)


def best(e: Emitter, x: Value, out: Value, count: Value, most: Value) -> None:
    """The same where there are more than `most`.

    The score of the last one chosen is found bit by bit: of floats as whole numbers in the same order."""
    least = threshold(e, x, count, most)
    mark(e, x, out, count, least, most - reaching(e, x, count, least + 1))


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
        rest = e.var(I64, e.widen(e.to_int(same), I64))
        with e.forever() as leave:
            leave(rest.get().equals(0) | left.get().equals(0))
            first = rest.get() & -rest.get()
            number.set(number.get() + e.to_float(first))
            rest.set(rest.get() ^ first)
            left.set(left.get() - 1)
        e.store(number.get(), out + (key >> 4) * 4)
