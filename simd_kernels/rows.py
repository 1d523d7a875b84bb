"""Kernels that do each row on its own: what they share, and those that move numbers.  Rows are f32, shared evenly."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import FEW
from edgeinfer.simd_kernels.record import COPY, OUTPUTS, POOL, STEP
from edgeinfer.simd_kernels.values import F32, I64, Value, vec

WIDE = vec(F32, 16)


def my_share(e: Emitter, op: Value, thread: Value, threads: Value) -> tuple[Value, Value]:
    """(first, behind the last) of the rows this worker does: an even, contiguous share, of whole tiles where rows may
    lie in such (activation.py)."""
    count, n = e.load(e.field(op, 2), I64), e.tier.tile_tokens
    share = (count + threads - 1) / threads
    share = e.select(count > FEW, (share + (n - 1)) / n * n, share)
    return thread * share, e.least(thread * share + share, count)


@contextmanager
def my_rows(e: Emitter, op: Value, thread: Value, threads: Value) -> Iterator[Value]:
    """Numbers of the rows this worker does."""
    with e.loop(*my_share(e, op, thread, threads)) as row:
        yield row


@contextmanager
def my_tiles(e: Emitter, op: Value, thread: Value, threads: Value) -> Iterator[Value]:
    """Numbers of the first rows of the tiles this worker does."""
    with e.loop(*my_share(e, op, thread, threads), e.tier.tile_tokens) as row:
        yield row


@contextmanager
def claimed(e: Emitter, counter: Value, chunk: Value, total: Value) -> Iterator[tuple[Value, Value]]:
    """Chunks that this worker claims until none of `total` rows is left: the first row, and how many."""
    with e.forever() as leave:
        first = e.claim(counter) * chunk
        leave(first >= total)
        yield first, e.least(chunk, total - first)


class Claims:
    """Items of one sequence of the step after the other that this worker claims, by a counter of all of them."""

    def __init__(self, e: Emitter, counter: Value) -> None:
        self.e, self.counter = e, counter
        self.number, self.before = e.var(I64, e.claim(counter)), e.var(I64)  # claimed; of the sequences before

    @contextmanager
    def of(self, count: Value) -> Iterator[Value]:
        """Those of the next sequence, which has so many."""
        with self.e.forever() as leave:
            item = self.number.get() - self.before.get()
            leave(item >= count)
            yield item
            self.number.set(self.e.claim(self.counter))
        self.before.set(self.before.get() + count)


def path(count: Value, few: Value, uniform: Value) -> tuple[Value, Value, Value]:
    """Whether so many rows of activations are multiplied as one alone, as a few, or as many."""
    alone = count.equals(1) & uniform.equals(0)
    several = alone.equals(0)
    return alone, several & (count <= few), several & (count > few)


def sweep(e: Emitter, width: Value, body: Callable[[Value, Value | None], None]) -> None:
    """body(k, mask) for k = 0, 16, ...: `mask` is None but for the last, partial vector."""
    whole = width & -16
    with e.loop(0, whole, 16) as k:
        body(k, None)
    with e.when(width > whole):
        body(whole, e.first(width - whole, 16))


def get(e: Emitter, address: Value, mask: Value | None) -> Value:
    return e.load(address, WIDE) if mask is None else e.load_some(address, mask, WIDE)


def put(e: Emitter, value: Value, address: Value, mask: Value | None) -> None:
    if mask is None:
        e.store(value, address)
    else:
        e.store_some(value, address, mask)


def dot_rows(e: Emitter, r: SimpleNamespace, w: Value, count: Value, x: Value, out: Value, bias: Value) -> None:
    """out f32[count] = rows of weights at `w` times one row of activations, by the operation's `dot`, + bias."""
    e.jump(r.dot, w, r.row_bytes, count, x, r.cols, out)
    with e.when(r.bias > 0):
        add_to(e, out, bias, count)


def add_to(e: Emitter, out: Value, more: Value, count: Value) -> None:
    """`count` numbers at `more` added to those at `out`."""
    sweep(e, count, lambda k, mask: put(e, get(e, out + k * 4, mask) + get(e, more + k * 4, mask), out + k * 4, mask))


def outputs(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Row i of out = row picked[i] of x."""
    r, s = OUTPUTS.read(e, op), STEP.read(e, step)
    with my_rows(e, op, thread, threads) as row:
        source = r.x + e.field(s.picked + row * 8, 0) * r.x_stride
        out = r.out + row * r.out_stride
        sweep(e, r.width, lambda k, mask: put(e, get(e, source + k * 4, mask), out + k * 4, mask))


def pool(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Row i of out = mean of rows of the i-th chunk."""
    r, s = POOL.read(e, op), STEP.read(e, step)
    with my_rows(e, op, thread, threads) as row:
        count = e.field(s.spans + row * 16, 1)
        rows = e.least(count, r.most)
        first = e.field(s.spans + row * 16, 0) + (count - rows) * r.from_end
        source, out = r.x + first * r.x_stride, r.out + row * r.out_stride
        share = e.splat(e.const(F32, 1.0) / e.to_float(rows), 16)

        def one(k: Value, mask: Value | None) -> None:
            total = e.var(WIDE)
            with e.loop(0, rows) as i:
                total.set(total.get() + get(e, source + i * r.x_stride + k * 4, mask))
            put(e, total.get() * share, out + k * 4, mask)

        sweep(e, r.width, one)


def copy(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """The first `width` numbers of each group of x, to where its group of out begins."""
    r = COPY.read(e, op)
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.groups) as group:
        source = r.x + row * r.x_stride + group * r.x_group
        out = r.out + row * r.out_stride + group * r.out_group
        sweep(e, r.width, lambda k, mask: put(e, get(e, source + k * 4, mask), out + k * 4, mask))
