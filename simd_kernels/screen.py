"""A coarse view of the output matrix whose product with a row of activations bounds the logits from above.

The view has 4 bits a weight, so reading it takes half the time of reading Q8_0.  What it leaves of a row of weights,
the residual r, is not forgotten: for activations x the logit is w4 . x + r . x.  Activations lie mostly in a few
directions u: with any numbers p, best the products u . x, and x' = x - sum p u, what they leave of x,

    r . x = sum (r . u) p + r . x' <= sum (r . u) p + |r| |x'|      (Cauchy and Schwarz)

The numbers r . u and |r| of a row are one more block of 32 weights, p and |x'| 32 more activations, so the bound is a
dot product like all others.  All rounding is allowed for within the block.

Its weights: 16 numbers n as whole multiples of a scale, 8 bits each in two of 4: n = 16 high + low.  They are the
DIRECTIONS products, rounded to the nearest; |r| in units of NORM, rounded up; and 1, the largest error there can be
left, of a product's rounding, of residuals' and of float32.

Residuals are taken as the next 8 bits of each weight, directions as 8-bit codes with a scale for each 32 columns: so
r . u is a dot product of bytes.  What these bits leave of a row is counted with the errors, and directions need not be
orthogonal.

The view lies in panels of 16 rows, which are lanes, so that nothing is summed across lanes: the rows' scales f32[16];
the scales of their last blocks f32[16]; for each 32 columns their scales in units of the row's i8[16], and nibbles
[4][16 rows][4 bytes], column c (0..15) being in the low half of the row's byte c and c + 16 in the high half; the
nibbles of the last blocks.  A weight is the scale * (nibble - 8).  Scales have a sign, so that the number farthest from
0 is the one that nibbles reach farthest to; it may be far out.
"""

from functools import partial
from types import SimpleNamespace

from edgeinfer.simd_kernels import layout
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.instructions import ROUND
from edgeinfer.simd_kernels.layout import DIRECTIONS
from edgeinfer.simd_kernels.parts import by_parts
from edgeinfer.simd_kernels.record import BOUNDS, STEP, VIEW, WIDEN
from edgeinfer.simd_kernels.rows import WIDE, claimed, get, my_rows, put
from edgeinfer.simd_kernels.select import tops
from edgeinfer.simd_kernels.values import F32, I8, I32, Value, vec

ROWS, FOUR = 16, 4  # rows of a panel, and of those taken together while weights are in order of columns
HEAD, BLOCK = 2 * 4 * ROWS, ROWS + 16 * ROWS  # bytes of a panel before the blocks, and of 32 columns
MIDDLE = 8  # the nibble of 0
FAR, NEAR = 8.25, 7.49  # scales to the weight of a block that is farthest from 0, and to the farthest of the other sign
MOST = 119  # the whole numbers of the last block are -MOST..MOST: 16 * 7 + 7
SCALE = 0.2 / MOST  # of the last block, for a residual of length 1: its products are seldom above 0.2
NORM = 1 / (110 * SCALE)  # so that a residual's length is at most 110 of its units, whatever the scale
ROUNDING = 1e-5  # of the length of the activations, for what directions leave of them
# A residual counts as at least so many times the root of the squares of a row's scales: it is 1.6 of them where nibbles
# round evenly, and with less, rounding would not be small beside the last block's scale.
LEAST = 1.42
# In units of the scale: half a unit for each product, together |p| sqrt(DIRECTIONS) / 2; and so many |x| for the half
# 256ths of scales that rests leave (sqrt(32) / 512 of the root of the squares of scales: 4.7 units with LEAST), for the
# rounding of the activations to 16 bits (0.7) and for float32 (0.1).
OF_PRODUCTS, OF_ALL = 1.01 * DIRECTIONS**0.5 / 2, 6.0


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
    """Write the view of the rows first..rows of the matrix, whole panels; past its end the last row is taken again."""
    r, s = VIEW.read(e, op), STEP.read(e, step)
    scratch = Scratch(s.scratch + thread * s.scratch_bytes, r.cols)
    with claimed(e, r.counter, r.chunk, r.rows - r.first) as (begin, count):
        with e.loop(r.first + begin, r.first + begin + count, ROWS) as row:
            out = r.view + (row / ROWS) * r.panel_bytes
            with e.loop(0, ROWS, FOUR) as lane:
                for i in range(FOUR):
                    source = r.w + e.least(row + lane + i, r.rows - 1) * r.row_bytes
                    dequantise(e, r, source, scratch, scratch.weights + r.cols * (4 * i))
                share_out(e, r.cols, scratch, out, lane)
                coarse(e, r.cols, scratch, out, lane)
            last_blocks(e, r, scratch, out)


class Scratch:
    """Where a worker keeps what it needs of a panel: `layout.view_scratch` bytes."""

    def __init__(self, at: Value, cols: Value) -> None:
        self.weights, self.rests = at, at + cols * 16  # f32[4][cols]; u8[blocks][8][16 rows][4]
        self.scales, self.inverses = at + cols * 32, at + cols * 34  # f32[blocks][16 rows]
        self.codes, self.groups, self.minimums = (at + (cols * 36 + (cols >> 1) * i) for i in (0, 2, 3))
        self.products = at + cols * 38  # f32[DIRECTIONS][16 rows]


def dequantise(e: Emitter, r: SimpleNamespace, source: Value, s: Scratch, out: Value) -> None:
    """out f32[cols] = the row of weights at `source`."""
    with e.when(r.group.equals(0)):
        e.jump(r.unpack, source, r.cols, out, 0, 0)
    with e.when(r.group > 0):
        e.jump(r.unpack, source, r.cols, s.codes, s.groups, s.minimums)
        # By which a column becomes the place of its group's scale, and how far that of the next 16 columns lies.
        shift, apart = (r.group >> 5) + 2, (-r.group + 32) >> 2
        with e.loop(0, r.cols, 32) as k:
            for half in range(2):
                code = e.to_float(e.widen_signed(e.load(s.codes + (k + 16 * half), vec(I8, 16)), vec(I32, 16)))
                group = (k >> shift) + apart * half
                scale, minimum = (e.splat(e.load(at + group, F32), 16) for at in (s.groups, s.minimums))
                e.store(e.fma(code, scale, minimum), out + (k + 16 * half) * 4)


def share_out(e: Emitter, cols: Value, s: Scratch, out: Value, lane: Value) -> None:
    """Scales of the blocks of four rows, whole multiples of a unit of the row, and 256 times their inverses."""
    largest = e.var(vec(F32, FOUR))
    with e.loop(0, cols, 32) as k:
        # Of the bits of positive floats, which compare as these do, NaN being above everything.
        signs, none = e.const(vec(I32, 16), -(1 << 31)), e.const(vec(I32, FOUR))
        rows = [[e.load(s.weights + (cols * i + k + 16 * j) * 4, vec(I32, 16)) for j in range(2)] for i in range(FOUR)]
        above = e.maximum(e.across([e.maximum(*halves) for halves in rows], e.maximum), none)
        below = e.across([e.maximum(*(half ^ signs for half in halves)) for halves in rows], e.maximum)
        far = e.bits(e.maximum(above, below), largest.kind)
        near = e.bits(e.least(above, e.maximum(below, none)), largest.kind)
        scale = e.maximum(near * (1 / NEAR), far * (1 / FAR))
        largest.set(e.maximum(largest.get(), scale))
        e.store(e.select(above > below, -scale, scale), s.scales + (k << 1) + lane * 4)
    unit = largest.get() * (1.00001 / 127) + 1e-35  # so that neither it nor its inverse is 0
    e.store(unit, out + lane * 4)
    share = e.const(unit.kind, 1.0) / unit
    with e.loop(0, cols, 32) as k:
        at = (k << 1) + lane * 4
        wanted = e.load(s.scales + at, unit.kind)
        units = e.round(e.fma(e.size(wanted), share, e.const(unit.kind, 0.5)))  # up, to 127 at most
        units = e.select(wanted < 0.0, -units, units)
        scale = units * unit
        inverse = e.select(units.equals(0.0), e.const(unit.kind, 0.0), e.const(unit.kind, 256.0) / scale)
        e.store(scale, s.scales + at)
        e.store(inverse, s.inverses + at)
        e.store(e.narrow(e.nearest(units), vec(I8, FOUR)), out + HEAD + (k >> 5) * BLOCK + lane)


def coarse(e: Emitter, cols: Value, s: Scratch, out: Value, lane: Value) -> None:
    """Write the nibbles of four rows, and note their rests: what is left of a weight is the scale * (rest - 128) / 256,
    to half a 256th."""
    with e.loop(0, cols, 32) as k:
        at = s.inverses + (k << 1) + lane * 4
        inverses = [e.splat(e.load(at + 4 * i, F32), 16) for i in range(FOUR)]
        halves = []
        for j, lift in enumerate((ROUND + 128 + 256 * MIDDLE, ROUND + 128)):  # high nibbles keep their signs for now
            places = [s.weights + (cols * i + k + 16 * j) * 4 for i in range(FOUR)]
            # Bits of the lift + whole 256ths of the scale.
            numbers = [
                e.bits(e.fma(e.load(place, WIDE), inverse, e.const(WIDE, lift)), vec(I32, 16))
                for place, inverse in zip(places, inverses, strict=True)
            ]
            rests = e.interwoven([(number << 24).signed_shift(24) for number in numbers])
            put_words(e, rests, s.rests + (k << 4) + 256 * j, lane)
            halves.append(numbers)
        nibbles = [((high << 20).signed_shift(24) & -16) | ((low >> 8) & 15) for low, high in zip(*halves, strict=True)]
        put_words(e, e.interwoven(nibbles) ^ -128, out + HEAD + (k >> 5) * BLOCK + ROWS, lane)


def put_words(e: Emitter, words: Value, at: Value, lane: Value) -> None:
    """Four words of each of four rows, i8[4 words][4 rows][4], in their lanes."""
    for j in range(4):
        e.store(e.part(words, 16 * j, 16), at + 64 * j + lane * 4)


def last_blocks(e: Emitter, r: SimpleNamespace, s: Scratch, out: Value) -> None:
    """Write the last blocks of a panel's rows, by what is left of these."""
    scales, squares = e.var(WIDE), e.var(WIDE)  # of scales, and of what is left
    for place in range(0, 64 * DIRECTIONS, 64):
        e.store(e.const(WIDE), s.products + place)
    with e.loop(0, r.cols, 32) as k:
        for line in range(0, BLOCK, 64):  # of the next panel
            e.prefetch(out + r.panel_bytes + (k >> 5) * BLOCK + line)
        scale = e.load(s.scales + (k << 1), WIDE)
        rests = [e.load(s.rests + (k << 4) + 64 * j, vec(I8, 64)) for j in range(8)]
        scales.set(e.fma(scale, scale, scales.get()))
        squares.set(e.fma(scale * scale, squares_of(e, rests), squares.get()))
        codes = r.directions + (k >> 5) * layout.DIRECTION_BYTES
        sums = codes + 32 * DIRECTIONS
        with e.loop(0, DIRECTIONS) as j:
            start = e.const(I32, 0) if e.centre(True) else e.load(sums + j * 4, I32)
            total, words = e.splat(start, ROWS), e.spread(codes + j * 32, 8, I32, ROWS)
            for rest, word in zip(rests, words, strict=True):
                total = e.dot(total, rest, e.bits(word, vec(I8, 64)), True)
            factor, product = scale * e.splat(e.load(sums + (j + DIRECTIONS) * 4, F32), ROWS), s.products + j * 64
            e.store(e.fma(e.to_float(total), factor, e.load(product, WIDE)), product)
    products = [e.load(s.products + 64 * j, WIDE) * (1 / 256) for j in range(DIRECTIONS)]
    finish(e, scales.get(), squares.get(), products, r.cols, out)


def squares_of(e: Emitter, rests: list[Value]) -> Value:
    """f32[16], sums of the squares of rests less 128, -128 counting as -127."""
    total = e.const(vec(I32, ROWS))
    for rest in rests:
        number = e.maximum(rest ^ -128, e.const(rest.kind, -127))
        size = e.maximum(number, -number)
        total = e.dot(total, size, size, False)
    return e.to_float(total)


def finish(e: Emitter, scales: Value, squares: Value, products: list[Value], cols: Value, out: Value) -> None:
    """The last blocks, of 16 rows that are the lanes: by squares of scales, squares of 256ths times the scales that are
    left, and products with each direction."""
    length = e.root(squares) * (1.0001 * 128 / 127 / 256)
    most = e.maximum(length, e.root(scales) * LEAST) * SCALE
    for product in products:
        most = e.maximum(most, e.size(product) * (1 / MOST))
    scale = (most + (scales - scales)) * 1.0001 + 1e-37  # NaN where weights are not finite
    e.store(scale, out + 4 * ROWS)
    inverse = e.const(WIDE, 1.0) / scale
    numbers = [e.nearest(product * inverse) for product in products]
    numbers.append(e.nearest(e.fma(length * (1 / NORM), inverse, e.const(WIDE, 0.5))))
    numbers.append(e.const(vec(I32, ROWS), 1))
    for j in range(4):
        # The nibbles of n are its digits + 8.
        words = [(number + (16 * MIDDLE + MIDDLE)) << (8 * i) for i, number in enumerate(numbers[4 * j : 4 * j + 4])]
        e.store(words[0] | words[1] | words[2] | words[3], out + HEAD + (cols >> 5) * BLOCK + 64 * j)


def along(e: Emitter, x: Value, cols: Value, directions: Value) -> list[Value]:
    """The products of x f32[cols] with each direction."""
    sums = [e.var(WIDE) for _ in range(DIRECTIONS)]
    with e.loop(0, cols, 16) as k:
        part = e.load(x + k * 4, WIDE)
        for j, total in enumerate(sums):
            total.set(e.fma(part, e.load(directions + (cols * j + k) * 4, WIDE), total.get()))
    return [e.total(total.get()) for total in sums]


def widen(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """out f32[cols + 32] = x and what the last block of a row of the view is multiplied by."""
    r = WIDEN.read(e, op)
    with my_rows(e, op, thread, threads):
        products = along(e, r.x, r.cols, r.directions)
        size, left = e.var(WIDE), e.var(WIDE)
        with e.loop(0, r.cols, 16) as k:
            part = e.load(r.x + k * 4, WIDE)
            e.store(part, r.out + k * 4)
            size.set(e.fma(part, part, size.get()))
            for j, product in enumerate(products):
                direction = e.load(r.directions + (r.cols * j + k) * 4, WIDE)
                part = e.fma(e.splat(-product, 16), direction, part)
            left.set(e.fma(part, part, left.get()))
        length, inside = e.root(e.total(size.get())), e.const(F32, 0.0)
        for product in products:
            inside = inside + product * product
        across = e.root(e.total(left.get())) + length * ROUNDING
        rounding = e.root(inside) * OF_PRODUCTS + length * OF_ALL
        for j, number in enumerate([*products, across * NORM, rounding]):
            e.store(number, r.out + (r.cols + j) * 4)
            e.store(number * 16.0, r.out + (r.cols + 16 + j) * 4)
