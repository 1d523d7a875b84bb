"""Kernels that do each row on its own: normalise, activate, add, copy.  Rows are f32 and split evenly over the workers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import F32, I8, I32, I64, Emitter, Value, vec
from edgeinfer.simd_kernels.record import ELEMENTWISE, NORM, OUTPUTS, QUANTISE, ROPE, SOFTCAP, STEP, Record

WIDE = vec(F32, 16)


@contextmanager
def my_rows(e: Emitter, op: Value, thread: Value, threads: Value) -> Iterator[Value]:
    """Numbers of the rows this worker does: an even, contiguous share."""
    count = e.load(e.field(op, 2), I64)
    share = (count + threads - 1) / threads
    first = thread * share
    with e.loop(first, e.least(first + share, count)) as row:
        yield row


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


def elementwise(record: Record, formula: Callable[[Emitter, SimpleNamespace, list[Value]], Value]) -> Callable[..., None]:
    """A kernel out = formula(x, y) number by number; y only where the record has one."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        r = record.read(e, op)
        with my_rows(e, op, thread, threads) as row:
            sources = [r.x + row * r.x_stride] + ([r.y + row * r.y_stride] if hasattr(r, "y") else [])
            out = r.out + row * r.out_stride

            def one(k: Value, mask: Value | None) -> None:
                numbers = [get(e, source + k * 4, mask) for source in sources]
                put(e, formula(e, r, numbers), out + k * 4, mask)

            sweep(e, r.width, one)

    return body


def sigmoid(e: Emitter, x: Value) -> Value:
    return e.const(x.kind, 1.0) / (e.exp(-x) + 1.0)


def tanh(e: Emitter, x: Value) -> Value:
    return sigmoid(e, x * 2.0) * 2.0 - 1.0


def gelu(e: Emitter, x: Value) -> Value:
    """x * Phi(x) in its tanh form: 0.5 x (1 + tanh(z)) is x * sigmoid(2 z) with z = sqrt(2 / pi) (x + 0.044715 x**3)."""
    return x * sigmoid(e, x * (x * x * 0.044715 + 1.0) * (2 * 0.7978845608028654))


silu_gated = elementwise(ELEMENTWISE, lambda e, r, v: v[0] * sigmoid(e, v[0]) * v[1])
gelu_gated = elementwise(ELEMENTWISE, lambda e, r, v: gelu(e, v[0]) * v[1])
add = elementwise(ELEMENTWISE, lambda e, r, v: v[0] + v[1])
softcap = elementwise(SOFTCAP, lambda e, r, v: tanh(e, v[0] / e.splat(r.cap_f32, 16)) * e.splat(r.cap_f32, 16))


def norm(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """RMS norm of each of `groups` runs of `size` numbers in a row, times `weight` f32[size]  (https://arxiv.org/abs/1910.07467)."""
    r = NORM.read(e, op)
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.groups) as group:
        x, out = (base + row * stride + group * r.size * 4 for base, stride in ((r.x, r.x_stride), (r.out, r.out_stride)))
        squares = e.var(WIDE)

        def measure(k: Value, mask: Value | None) -> None:
            v = get(e, x + k * 4, mask)
            squares.set(e.fma(v, v, squares.get()))

        sweep(e, r.size, measure)
        mean = e.total(squares.get()) / e.to_float(r.size)
        scale = e.splat(e.const(F32, 1.0) / e.root(mean + r.eps_f32), 16)

        def apply(k: Value, mask: Value | None) -> None:
            put(e, get(e, x + k * 4, mask) * scale * get(e, r.weight + k * 4, mask), out + k * 4, mask)

        sweep(e, r.size, apply)


def outputs(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Row i of out = row picked[i] of x."""
    r, s = OUTPUTS.read(e, op), STEP.read(e, step)
    with my_rows(e, op, thread, threads) as row:
        source = r.x + e.field(s.picked + row * 8, 0) * r.x_stride
        out = r.out + row * r.out_stride
        sweep(e, r.width, lambda k, mask: put(e, get(e, source + k * 4, mask), out + k * 4, mask))


def quantise(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Rows of f32[width] as 8-bit codes, and a scale = largest size / 127 for each 32 of them.

    One row alone: codes i8[width], scales f32[width / 32], sums of scale * code over 32 codes f32[width / 32] and over 16 f32[width / 16].
    Several: tiles of n = tile_tokens rows in place of n rows, codes i8[width / 4][n][4], scales f32[width / 32][n], sums [...][n] likewise.
    A row that holds a number that is not finite gets scales that are not finite."""
    r = QUANTISE.read(e, op)
    count = e.load(e.field(op, 2), I64)
    for tokens, wanted in ((1, count.equals(1)), (e.tier.tile_tokens, count > 1)):
        with e.when(wanted), my_rows(e, op, thread, threads) as row:
            place = row / tokens
            quantise_row(e, r.x + row * r.x_stride, r.width, r.out + place * r.out_stride * tokens, row - place * tokens, tokens)


def quantise_row(e: Emitter, x: Value, width: Value, tile: Value, lane: Value, n: int) -> None:
    """Write one row into place `lane` of a tile of `n`."""
    codes = tile + lane * 4
    scales = codes + width * n
    sums = scales + (width >> 3) * n
    halves = sums + (width >> 3) * n
    with e.loop(0, width, 32) as k:
        parts = [e.load(x + (k + 16 * j) * 4, WIDE) for j in range(2)]
        # Sizes of floats compare like their bits, and NaN is above everything.
        top = e.bits(e.largest(e.maximum(*(e.bits(v, vec(I32, 16)) & 0x7FFFFFFF for v in parts))), F32)
        scale = top * (1.0 / 127)
        inverse = e.splat(e.select(top > 0.0, e.const(F32, 127.0) / top, 0.0), 16)
        group = (k >> 3) * n
        codes32 = e.join(*(e.narrow(e.to_int(e.round(v * inverse)), vec(I8, 16)) for v in parts))
        words = e.bits(codes32, vec(I32, 8))
        for word in range(8):
            e.store(e.lane(words, word), codes + k * n + word * 4 * n)
        fours = e.dot(e.const(words.kind), e.const(codes32.kind, 1), codes32, False)
        pairs = fours + e.pick(fours, [1, 0, 3, 2, 5, 4, 7, 6])
        low, high = (e.lane(pairs, j) + e.lane(pairs, j + 2) for j in (0, 4))
        for j, total in enumerate((low, high)):
            e.store(e.to_float(total) * scale, halves + group * 2 + 4 * n * j)
        e.store(scale, scales + group)
        e.store(e.to_float(low + high) * scale, sums + group)


def rope(adjacent: bool) -> Callable[..., None]:
    """Rotary embedding (https://arxiv.org/abs/2104.09864) of `heads` heads by the row's position; dims from 2 * pairs on pass.

    table f32[positions][2][pairs]: cosines, then sines.  Pair i is (2i, 2i + 1) if `adjacent`, else (i, i + pairs)."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        r, s = ROPE.read(e, op), STEP.read(e, step)
        with my_rows(e, op, thread, threads) as row:
            cosines = r.table + e.field(s.positions + row * 8, 0) * r.pairs * 8
            sines = cosines + r.pairs * 4
            with e.loop(0, r.heads) as head:
                x, out = (b + row * n + head * r.head_dim * 4 for b, n in ((r.x, r.x_stride), (r.out, r.out_stride)))
                whole = r.pairs & -8
                for start, stop, n in ((e.const(I64, 0), whole, 8), (whole, r.pairs, 1)):
                    with e.loop(start, stop, n) as i:
                        cos, sin = e.load(cosines + i * 4, vec(F32, n)), e.load(sines + i * 4, vec(F32, n))
                        turn_pairs(e, adjacent, x, out, i, r.pairs, cos, sin)
                with e.loop(r.pairs * 2, r.head_dim) as i:
                    e.store(e.load(x + i * 4, F32), out + i * 4)

    return body


def turn_pairs(e: Emitter, adjacent: bool, x: Value, out: Value, i: Value, pairs: Value, cos: Value, sin: Value) -> None:
    """Rotate pairs i, i + 1, ... of one head, as many as `cos` has lanes."""
    n = cos.lanes
    if adjacent:
        both = e.load(x + i * 8, vec(F32, 2 * n))
        a, b = e.pick(both, range(0, 2 * n, 2)), e.pick(both, range(1, 2 * n, 2))
    else:
        a, b = e.load(x + i * 4, vec(F32, n)), e.load(x + (i + pairs) * 4, vec(F32, n))
    new_a, new_b = a * cos - b * sin, a * sin + b * cos
    if adjacent:
        e.store(e.pick(new_a, [j // 2 + n * (j % 2) for j in range(2 * n)], new_b), out + i * 8)
    else:
        e.store(new_a, out + i * 4)
        e.store(new_b, out + (i + pairs) * 4)
