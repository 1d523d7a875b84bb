"""Activations as 8-bit codes: what linear layers of quantised weights multiply with.

In their fine form they have 16 bits, as two planes of 8: the output layer takes them, where a quarter of all error
comes from and only one row is needed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import FEW, SPAN
from edgeinfer.simd_kernels.quants.few import Span, span_bytes
from edgeinfer.simd_kernels.record import QUANTISE, STEP
from edgeinfer.simd_kernels.rows import WIDE, my_rows, my_tiles, path
from edgeinfer.simd_kernels.values import F32, I8, I32, I64, Value, vec

LEAST = 2.0**-120  # whose inverse times 127 is finite; groups of smaller numbers are zeros


@dataclass(frozen=True)
class Place:
    """Where the numbers of 32 columns of a row, or of rows side by side, go."""

    codes: Value  # of the first 4 columns
    low_codes: Value
    step: int  # bytes from 4 columns to the next
    scale: Value
    total: Value  # of the codes
    halves: tuple[Value, Value]


Places = Callable[[Value], Place]  # by the first of 32 columns


def in_spans(x: Value, lane: Value, rows: int, stride: Value, fine: bool = False) -> Places:
    """Places of a row, one of one or two that share spans, which lie `stride` bytes apart."""

    def place(k: Value) -> Place:
        span, number = Span(x + (k >> 8) * stride, fine, rows), lane * 32 + ((k >> 5) & 7) * 4
        planes = [plane + number for plane in span.planes]
        halves = (span.halves + number, span.halves + (number + 32 * rows))
        return Place(planes[0], planes[-1], 32 * rows, span.scales + number, span.sums + number, halves)

    return place


def in_tile(tile: Value, lane: int, rows: int, width: Value) -> Places:
    """Places of a row of a tile of so many, and of the next ones."""
    codes = tile + lane * 4
    scales = codes + width * rows
    sums, halves = scales + (width >> 3) * rows, scales + (width >> 2) * rows
    low_codes = halves + (width >> 2) * rows

    def place(k: Value) -> Place:
        group, at = (k >> 3) * rows, k * rows
        half = halves + group * 2
        return Place(codes + at, low_codes + at, 4 * rows, scales + group, sums + group, (half, half + 4 * rows))

    return place


def quantise(fine: bool) -> Callable[..., None]:
    """Rows of f32[width] as 8-bit codes, and a scale = largest size / 127 for each 32 of them.

    One row alone: codes i8[width], scales f32[width / 32], sums of scale * code over 32 codes f32[width / 32] and over
    16 f32[width / 16].
    A few (STEP.few at most; one too where STEP.uniform) lie in spans of 256 columns of pairs of rows, FEW rows at a
    time, span after span: codes i8[8 words][2][8 groups][4], scales f32[2][8], sums f32[2][8], and over 16 codes
    f32[2][2][8], of first halves of groups and of second ones.
    More: tiles of n = tile_tokens rows in place of n rows, codes, raised, i8[width / 4][n][4], scales f32[width /
    32][n], sums [...][n] likewise.
    Fine: low codes behind all that, laid out as the codes; number = scale * (256 * code + low code), the scale being
    1 / 256 of the plain one.
    A row that holds a number that is not finite gets scales that are not finite."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        r, s = QUANTISE.read(e, op), STEP.read(e, step)
        count = e.load(e.field(op, 2), I64)
        single, few, many = path(count, s.few, s.uniform)
        with e.when(single), my_rows(e, op, thread, threads) as row:
            alone(e, r.x + row * r.x_stride, r.width, r.out, fine)
        with e.when(few), my_rows(e, op, thread, threads) as row:
            one_of_few(e, r, row, count, fine)
        with e.when(many), my_tiles(e, op, thread, threads) as row:
            one_tile(e, r, row, count, fine)

    return body


def alone(e: Emitter, x: Value, width: Value, out: Value, fine: bool = False) -> None:
    quantise_together(e, [x], width, in_tile(out, 0, 1, width), fine)


def one_tile(e: Emitter, r: SimpleNamespace, first: Value, count: Value, fine: bool) -> None:
    """The rows of a tile, as many together as fill a vector's lanes; past the end the last one is taken again."""
    n = e.tier.tile_tokens
    for lane in range(0, n, 4):
        rows = [e.least(first + lane + i, count - 1) for i in range(min(4, n - lane))]
        places = in_tile(r.out + first * r.out_stride, lane, n, r.width)
        quantise_together(e, [r.x + row * r.x_stride for row in rows], r.width, places, fine, e.raised())


def one_of_few(e: Emitter, r: SimpleNamespace, row: Value, count: Value, fine: bool) -> None:
    """A row of a pair; the last one is both where it has no other."""
    first = row & -FEW
    pairs = (e.least(count - first, e.const(I64, FEW)) + 1) >> 1
    pair = (row - first) >> 1
    size = span_bytes(fine)
    out = r.out + first * r.out_stride + pair * size
    both = (row + 1).equals(count) & (row & 1).equals(0)
    with e.loop(row & 1, (row & 1) + e.select(both, e.const(I64, 2), 1)) as lane:
        places = in_spans(out, lane, 2, pairs * size, fine)
        quantise_together(e, [r.x + row * r.x_stride], r.width, places, fine)
        end_span(e, r.width, places)


def end_span(e: Emitter, width: Value, places: Places) -> None:
    """What is missing of the last span counts for nothing."""
    with e.loop(width, (width + (SPAN - 1)) & -SPAN, 32) as k:
        place = places(k)
        for at in (place.scale, place.total, *place.halves):
            e.store(e.const(F32), at)


def quantise_together(
    e: Emitter, rows: list[Value], width: Value, places: Places, fine: bool = False, raised: int = 0
) -> None:
    """1, 2 or 4 rows whose words and numbers lie side by side."""
    n = len(rows)
    with e.loop(0, width, 32) as k:
        place = places(k)
        halves = [k * 4, k * 4 + 64]
        scale, inverses = scales_of(e, [[e.load(x + at, WIDE) for at in halves] for x in rows])
        scale = scale * (1.0 / 256 if fine else 1.0)
        e.store(scale, place.scale)
        totals = []
        for half, at in enumerate(halves):  # loaded again, as registers may be few
            numbers = [e.load(x + at, WIDE) * inverse for x, inverse in zip(rows, inverses, strict=True)]
            planes = zip(*(split(e, v, fine) for v in numbers), strict=True)
            total = e.const(vec(I32, 4 * n))
            for codes, plane in zip((place.codes, place.low_codes), planes, strict=False):
                words = e.interwoven(list(plane))
                put_words(e, words ^ -raised, n, codes + 4 * half * place.step, place.step)
                total = e.dot(total << 8, e.const(words.kind, 1), words, False)
            totals.append(e.fold(total, n))
        for at, total in zip((*place.halves, place.total), (*totals, totals[0] + totals[1]), strict=True):
            e.store(e.to_float(total) * scale, at)


def put_words(e: Emitter, codes: Value, rows: int, at: Value, step: int) -> None:
    """Codes of 16 columns, for each 4 of them words of so many rows, `step` bytes apart."""
    size = codes.lanes if step == 4 * rows else 4 * rows
    for first in range(0, codes.lanes, size):
        e.store(e.part(codes, first, size), at + first // (4 * rows) * step)


def scales_of(e: Emitter, rows: list[list[Value]]) -> tuple[Value, list[Value]]:
    """(scales f32[rows], 1 / scale of each in f32[16]) with which the largest of a row's numbers becomes 127."""
    # Sizes of floats compare like their bits, and NaN is above everything.
    sizes = [e.maximum(*(e.bits(v, vec(I32, 16)) & 0x7FFFFFFF for v in parts)) for parts in rows]
    top = e.bits(e.across(sizes, e.maximum), vec(F32, len(rows)))
    inverse = e.select(top > LEAST, e.const(top.kind, 127.0) / top, 0.0)
    return top * (1.0 / 127), [e.pick(inverse, [i] * 16) for i in range(len(rows))]


def codes_of(e: Emitter, parts: list[Value]) -> tuple[Value, Value]:
    """Two vectors of 16 numbers as (codes i8[32], scale f32)."""
    scale, (inverse,) = scales_of(e, [parts])
    return e.join(*(e.narrow(split(e, v * inverse, False)[0], vec(I8, 16)) for v in parts)), e.lane(scale, 0)


def split(e: Emitter, x: Value, fine: bool) -> list[Value]:
    """Numbers within +-127 as one plane of whole codes i32, or as two: codes, and 256ths of what these leave."""
    if not fine:
        return [e.nearest(x)]
    low = (x - e.round(x)) * 256.0
    low = e.select(low > 127.0, e.const(x.kind, 127.0), low)
    low = e.select(low < -127.0, e.const(x.kind, -127.0), low)
    return [e.nearest(x), e.nearest(low)]


def quantise_rows(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Each of a row's groups becomes a row of its own, as `quantise` does one row alone; or, where there are several
    rows, in spans as it does a few, but not in pairs."""
    r, s = QUANTISE.read(e, op), STEP.read(e, step)
    single, *_ = path(e.load(e.field(op, 2), I64), s.few, s.uniform)
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.groups) as group:
        x, out = r.x + row * r.x_stride + group * r.width * 4, r.out + (row * r.groups + group) * r.out_stride
        with e.when(single):
            alone(e, x, r.width, out)
        with e.when(single.equals(0)):
            places = in_spans(out, e.const(I64, 0), 1, e.const(I64, span_bytes(False, 1)))
            quantise_together(e, [x], r.width, places)
            end_span(e, r.width, places)
