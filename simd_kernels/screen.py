"""A coarse view of the output matrix whose product with a row of activations bounds the logits from above.

The view has 4 bits a weight, so reading it takes half the time of reading Q8_0.  What it leaves of a row of weights,
the residual r, is not forgotten: for activations x the logit is w4 . x + r . x.  Activations lie mostly in a few
directions u: with p = the products u . x and x' = what they leave of x,

    r . x = sum (r . u) p + r . x' <= sum (r . u) p + |r'| |x'|      (Cauchy and Schwarz; r' = r without its directions)

The numbers r . u and |r'| of a row are one more block of 32 weights, p and |x'| 32 more activations, so the bound is a
dot product like all others.  All rounding is allowed for within the block.

Its weights: 16 numbers n as whole multiples of a scale, 8 bits each in two of 4: n = 16 high + low.  They are the
DIRECTIONS products, rounded to the nearest; |r'| in units of NORM, rounded up; and 1, the largest error there can be
left, of a product's rounding and of float32.

The view lies in panels of 16 rows, which are lanes, so that nothing is summed across lanes: the rows' scales f32[16];
the scales of their last blocks f32[16]; for each 32 columns their scales in units of the row's i8[16], and nibbles
[4][16 rows][4 bytes], column c (0..15) being in the low half of the row's byte c and c + 16 in the high half; the
nibbles of the last blocks.  A weight is the scale * (nibble - 8).  Scales have a sign, so that the number farthest from
0 has the nibble 0 and loses nothing; it may be far out.
"""

from functools import partial
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import DIRECTIONS
from edgeinfer.simd_kernels.parts import by_parts
from edgeinfer.simd_kernels.record import BOUNDS, STEP, VIEW, WIDEN
from edgeinfer.simd_kernels.rows import WIDE, claimed, get, my_rows, put
from edgeinfer.simd_kernels.select import tops
from edgeinfer.simd_kernels.values import F32, I8, I32, Value, vec

ROWS = 16
HEAD, BLOCK = 2 * 4 * ROWS, ROWS + 16 * ROWS  # bytes of a panel before the blocks, and of 32 columns
MIDDLE = 8
MOST = 119  # the whole numbers of the last block are -MOST..MOST: 16 * 7 + 7
SCALE = 0.2 / MOST  # of the last block, for a residual of length 1: its products are seldom above 0.2
NORM = 1 / (110 * SCALE)  # so that a residual's length is at most 110 of its units, whatever the scale
LEAST = 1 / 32  # residuals count as at least this part of their row, so that rounding is small beside the scale
ROUNDING = 1e-5  # of the squares of lengths computed in float32
# In units of the scale: half a unit for each product, together |p| sqrt(DIRECTIONS) / 2; and for float32 and for the
# rounding of the activations to 16 bits, so many |x|: with LEAST 2e-4 of the row's length times |x|.
OF_PRODUCTS, OF_ALL = 1.01 * DIRECTIONS**0.5 / 2, 4.0


def bounds(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """scores f32[rows] = bounds of the logits, tops = the largest of each group, as `select.scan` has them.

    x: widened activations, finely quantised."""
    r = BOUNDS.read(e, op)

    def make(first: Value, count: Value, scores: Value) -> None:
        with e.loop(0, count, ROWS) as i:
            row, mask = first + i, e.first(count - i, ROWS)
            bound = panel(e, r.view + (row / ROWS) * r.panel_bytes, r.x, r.cols)
            bias = e.var(WIDE)
            with e.when(r.bias > 0):
                bias.set(get(e, r.bias + row * 4, mask))
            put(e, bound + bias.get(), scores + i * 4, mask)

    by_parts(e, op, step, thread, r, r.scores, make, partial(tops, e, r))


def panel(e: Emitter, at: Value, x: Value, cols: Value) -> Value:
    """f32[16], the bounds of the rows of the panel at this address."""
    width = cols + 32
    scales, low = x + width, x + width + (width >> 1)
    sums = scales + (width >> 3)

    def product(nibbles: Value, k: Value) -> Value:
        """The products of 32 columns but for the rows' scales."""
        high_total, low_total = e.const(vec(I32, ROWS)), e.const(vec(I32, ROWS))
        numbers = [list(e.spread(plane + k, 8, I32, ROWS)) for plane in (x, low)]
        for j in range(4):
            raw = e.load(nibbles + 64 * j, vec(I8, 64))
            for half, codes in enumerate((raw & 15, e.shift(raw, 4) & 15)):
                highs, lows = (e.bits(plane[j + 4 * half], vec(I8, 64)) for plane in numbers)
                high_total, low_total = e.dot(high_total, codes, highs, False), e.dot(low_total, codes, lows, False)
        total = e.to_float((high_total << 8) + low_total)
        scale, lowered = (e.splat(e.load(place + (k >> 3), F32), ROWS) for place in (scales, sums))
        return e.fma(total, scale, lowered * -float(MIDDLE))

    total = e.var(WIDE)
    with e.loop(0, cols, 32) as k:
        block = at + HEAD + (k >> 5) * BLOCK
        for line in range(0, BLOCK, 64):
            e.prefetch(block + (4096 + line))
        units = e.to_float(e.widen_signed(e.load(block, vec(I8, ROWS)), vec(I32, ROWS)))
        total.set(e.fma(units, product(block + ROWS, k), total.get()))
    last = product(at + HEAD + (cols >> 5) * BLOCK, cols)
    return e.fma(e.load(at, WIDE), total.get(), e.load(at + 4 * ROWS, WIDE) * last)


def view(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Write the view of the rows first..rows of the matrix."""
    r, s = VIEW.read(e, op), STEP.read(e, step)
    scratch = s.scratch + thread * s.scratch_bytes
    weights = scratch + r.cols * 4 + 1024
    with claimed(e, r.counter, r.chunk, r.rows - r.first) as (begin, count):
        with e.loop(r.first + begin, r.first + begin + count) as row:
            dequantise(e, r, r.w + row * r.row_bytes, scratch, weights)
            lane = row & (ROWS - 1)
            out = r.view + (row / ROWS) * r.panel_bytes
            size, left = coarse(e, weights, r.cols, scratch, out, lane)
            last = out + HEAD + (r.cols >> 5) * BLOCK
            numbers, scale = residual(e, weights, r.cols, r.directions, size, left, scratch)
            e.store(scale, out + (4 * ROWS) + lane * 4)
            write_words(e, numbers, last, lane)


def dequantise(e: Emitter, r: SimpleNamespace, source: Value, scratch: Value, out: Value) -> None:
    """out f32[cols] = the row of weights at `source`."""
    with e.when(r.group.equals(0)):
        e.jump(r.unpack, source, r.cols, out, 0, 0)
    with e.when(r.group > 0):
        scales, minimums = scratch + r.cols, scratch + r.cols * 2
        e.jump(r.unpack, source, r.cols, scratch, scales, minimums)
        shift = (r.group >> 5) + 2  # 4 bytes for 16 or for 32 columns
        with e.loop(0, r.cols, 16) as k:
            code = e.to_float(e.widen_signed(e.load(scratch + k, vec(I8, 16)), vec(I32, 16)))
            group = (k >> shift) & -4
            scale, minimum = (e.splat(e.load(at + group, F32), 16) for at in (scales, minimums))
            e.store(e.fma(code, scale, minimum), out + k * 4)


def coarse(e: Emitter, weights: Value, cols: Value, scratch: Value, out: Value, lane: Value) -> tuple[Value, Value]:
    """Write a row as lane `lane` of the panel `out`, leave its residual in place of the weights; the squares of the
    lengths of both."""
    largest = e.var(I32)
    with e.loop(0, cols, 32) as k:
        parts = [e.bits(e.load(weights + (k + 16 * j) * 4, WIDE), vec(I32, 16)) for j in range(2)]
        sized = [
            (part & 0x7FFFFFFE) | (part >> 31) for part in parts
        ]  # in the order of sizes, the sign in the last bit
        farthest = e.largest(e.maximum(*sized))
        largest.set(e.maximum(largest.get(), farthest))
        e.store((farthest & 0x7FFFFFFE) | ((farthest ^ 1) << 31), scratch + (k >> 3))  # less the number farthest from 0
    unit = e.bits(largest.get() & 0x7FFFFFFE, F32) * (1 / (MIDDLE * 127)) + 1e-37  # so that it is not 0
    e.store(unit, out + lane * 4)
    scales, inverses = (scratch + (cols + 256) * place for place in (1, 2))
    share_out(e, scratch, cols >> 5, unit, scales, inverses)
    size, left = e.var(WIDE), e.var(WIDE)
    with e.loop(0, cols, 32) as k:
        block = out + HEAD + (k >> 5) * BLOCK
        e.store(e.load(scratch + (k >> 3), I8), block + lane)
        scale, inverse = (e.splat(e.load(at + (k >> 3), F32), 16) for at in (scales, inverses))
        codes = []
        for j in range(2):
            part = e.load(weights + (k + 16 * j) * 4, WIDE)
            code = e.round(e.fma(part, inverse, e.const(WIDE, float(MIDDLE))))
            code = e.select(code > 15.0, e.const(WIDE, 15.0), code)
            code = e.select(code < 0.0, e.const(WIDE, 0.0), code)
            rest = part - (code - float(MIDDLE)) * scale
            size.set(e.fma(part, part, size.get()))
            left.set(e.fma(rest, rest, left.get()))
            e.store(rest, weights + (k + 16 * j) * 4)
            codes.append(e.to_int(code))
        write_words(e, e.narrow(codes[0] | (codes[1] << 4), vec(I8, 16)), block + ROWS, lane)
    return e.total(size.get()), e.total(left.get())


def share_out(e: Emitter, extremes: Value, blocks: Value, unit: Value, scales: Value, inverses: Value) -> None:
    """Scales of blocks f32[blocks] and their inverses, for numbers that the nibble 0 is to stand for; these become the
    scales in units, i32[blocks]."""
    with e.loop(0, blocks * 4, 64) as k:
        units = e.round(e.load(extremes + k, WIDE) * e.splat(e.const(F32, 1 / MIDDLE) / unit, 16))
        scale = units * e.splat(unit, 16)
        e.store(scale, scales + k)
        e.store(e.select(units.equals(0.0), e.const(WIDE, 0.0), e.const(WIDE, 1.0) / scale), inverses + k)
        e.store(e.to_int(units), extremes + k)


def write_words(e: Emitter, bytes16: Value, nibbles: Value, lane: Value) -> None:
    words = e.bits(bytes16, vec(I32, 4))
    for j in range(4):
        e.store(e.lane(words, j), nibbles + 64 * j + lane * 4)


def residual(
    e: Emitter, rest: Value, cols: Value, directions: Value, size: Value, left: Value, scratch: Value
) -> tuple[Value, Value]:
    """The last block of a row, u8[16], and its scale, for the squares of the lengths of the row and of its residual."""
    squares, most = e.const(F32, 0.0), e.const(F32, 0.0)
    for j, product in enumerate(along(e, rest, cols, directions)):
        e.store(product, scratch + 4 * j)
        squares = squares + product * product
        most = e.maximum(most, e.maximum(product, -product))
    length = e.maximum(e.root(left), e.root(size) * LEAST)
    wanted = e.maximum(length * SCALE, most * (1 / MOST)) + (size - size)  # NaN where weights are not finite
    scale = wanted * 1.0001 + 1e-37
    across = e.root(not_below(e, left - squares) + left * ROUNDING)
    e.store(across * (1 / NORM) + scale * 0.5, scratch + 4 * DIRECTIONS)
    e.store(scale, scratch + 4 * (DIRECTIONS + 1))
    whole = e.to_int(e.round(e.load(scratch, WIDE) / e.splat(scale, 16)))
    return e.narrow(whole + (16 * MIDDLE + MIDDLE), vec(I8, 16)), scale  # the nibbles of n are its digits + 8


def along(e: Emitter, x: Value, cols: Value, directions: Value) -> list[Value]:
    """The products of x f32[cols] with each direction."""
    sums = [e.var(WIDE) for _ in range(DIRECTIONS)]
    with e.loop(0, cols, 16) as k:
        part = e.load(x + k * 4, WIDE)
        for j, total in enumerate(sums):
            total.set(e.fma(part, e.load(directions + (cols * j + k) * 4, WIDE), total.get()))
    return [e.total(total.get()) for total in sums]


def not_below(e: Emitter, x: Value) -> Value:
    """x, or 0 where it is less; NaN stays."""
    return e.select(x < 0.0, e.const(F32, 0.0), x)


def widen(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """out f32[cols + 32] = x and what the last block of a row of the view is multiplied by."""
    r = WIDEN.read(e, op)
    with my_rows(e, op, thread, threads):
        size = e.var(WIDE)
        with e.loop(0, r.cols, 16) as k:
            part = e.load(r.x + k * 4, WIDE)
            size.set(e.fma(part, part, size.get()))
            e.store(part, r.out + k * 4)
        squares, inside = e.total(size.get()), e.const(F32, 0.0)
        products = along(e, r.x, r.cols, r.directions)
        for product in products:
            inside = inside + product * product
        across = e.root(not_below(e, squares - inside) + squares * ROUNDING)
        rounding = e.root(inside) * OF_PRODUCTS + e.root(squares) * OF_ALL
        for j, number in enumerate([*products, across * NORM, rounding]):
            e.store(number, r.out + (r.cols + j) * 4)
            e.store(number * 16.0, r.out + (r.cols + 16 + j) * 4)
