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
from edgeinfer.simd_kernels.rows import WIDE, my_rows, path
from edgeinfer.simd_kernels.values import F32, I8, I32, I64, Value, vec


@dataclass(frozen=True)
class Place:
    """Where the numbers of 32 columns of a row go."""

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


def in_tile(tile: Value, lane: Value, rows: int, width: Value) -> Places:
    """Places of a row of a tile of so many."""
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
        with e.when(many), my_rows(e, op, thread, threads) as row:
            n = e.tier.tile_tokens
            tile = row / n
            places = in_tile(r.out + tile * r.out_stride * n, row - tile * n, n, r.width)
            quantise_row(e, r.x + row * r.x_stride, r.width, places, fine, e.raised())

    return body


def alone(e: Emitter, x: Value, width: Value, out: Value, fine: bool = False) -> None:
    quantise_row(e, x, width, in_tile(out, e.const(I64, 0), 1, width), fine)


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
        quantise_row(e, r.x + row * r.x_stride, r.width, places, fine)
        end_span(e, r.width, places)


def end_span(e: Emitter, width: Value, places: Places) -> None:
    """What is missing of the last span counts for nothing."""
    with e.loop(width, (width + (SPAN - 1)) & -SPAN, 32) as k:
        place = places(k)
        for at in (place.scale, place.total, *place.halves):
            e.store(e.const(F32), at)


def quantise_row(e: Emitter, x: Value, width: Value, places: Places, fine: bool = False, raised: int = 0) -> None:
    with e.loop(0, width, 32) as k:
        place = places(k)
        parts = [e.load(x + (k + 16 * j) * 4, WIDE) for j in range(2)]
        scale, inverse = scales_of(e, parts)
        scale = scale * (1.0 / 256 if fine else 1.0)
        planes = list(zip(*(split(e, v * inverse, fine) for v in parts), strict=True))
        fours = e.const(vec(I32, 8))
        for at, plane in zip((place.codes, place.low_codes), planes, strict=False):
            bytes32 = e.join(*plane)
            words = e.bits(bytes32 ^ -raised, vec(I32, 8))
            for word in range(8):
                e.store(e.lane(words, word), at + word * place.step)
            fours = e.dot(fours << 8, e.const(bytes32.kind, 1), bytes32, False)
        pairs = fours + e.pick(fours, [1, 0, 3, 2, 5, 4, 7, 6])
        low, high = (e.lane(pairs, j) + e.lane(pairs, j + 2) for j in (0, 4))
        for at, total in zip((*place.halves, place.total), (low, high, low + high), strict=True):
            e.store(e.to_float(total) * scale, at)
        e.store(scale, place.scale)


def scales_of(e: Emitter, parts: list[Value]) -> tuple[Value, Value]:
    """(scale f32, 1 / scale f32[16]) with which the largest of these numbers becomes 127."""
    # Sizes of floats compare like their bits, and NaN is above everything.
    top = e.bits(e.largest(e.maximum(*(e.bits(v, vec(I32, 16)) & 0x7FFFFFFF for v in parts))), F32)
    return top * (1.0 / 127), e.splat(e.select(top > 0.0, e.const(F32, 127.0) / top, 0.0), 16)


def codes_of(e: Emitter, parts: list[Value]) -> tuple[Value, Value]:
    """Two vectors of 16 numbers as (codes i8[32], scale f32)."""
    scale, inverse = scales_of(e, parts)
    return e.join(*(split(e, v * inverse, False)[0] for v in parts)), scale


def split(e: Emitter, x: Value, fine: bool) -> list[Value]:
    """Numbers within +-127 as one plane of whole codes i8, or as two: codes, and 256ths of what these leave."""
    code = e.round(x)
    planes = [code] + ([e.round((x - code) * 256.0)] if fine else [])
    if fine:
        planes[1] = e.select(planes[1] > 127.0, e.const(x.kind, 127.0), planes[1])
        planes[1] = e.select(planes[1] < -127.0, e.const(x.kind, -127.0), planes[1])
    return [e.narrow(e.to_int(plane), vec(I8, 16)) for plane in planes]


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
            quantise_row(e, x, r.width, places)
            end_span(e, r.width, places)
