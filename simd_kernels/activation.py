"""Activations as 8-bit codes: what linear layers of quantised weights multiply with.

In their fine form they have 16 bits, as two planes of 8: the output layer takes them, where a quarter of all error
comes from and only one row is needed.
"""

from collections.abc import Callable

from edgeinfer.simd_kernels.emit import F32, I8, I32, I64, Emitter, Value, vec
from edgeinfer.simd_kernels.record import QUANTISE
from edgeinfer.simd_kernels.rows import WIDE, my_rows


def quantise(fine: bool) -> Callable[..., None]:
    """Rows of f32[width] as 8-bit codes, and a scale = largest size / 127 for each 32 of them.

    One row alone: codes i8[width], scales f32[width / 32], sums of scale * code over 32 codes f32[width / 32] and
    over 16 f32[width / 16].
    Several: tiles of n = tile_tokens rows in place of n rows, codes i8[width / 4][n][4], scales f32[width / 32][n],
    sums [...][n] likewise.
    Fine: low codes behind all that, laid out as the codes; number = scale * (256 * code + low code), the scale being
    1 / 256 of the plain one.
    A row that holds a number that is not finite gets scales that are not finite."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        r = QUANTISE.read(e, op)
        count = e.load(e.field(op, 2), I64)
        for n, wanted in ((1, count.equals(1)), (e.tier.tile_tokens, count > 1)):
            with e.when(wanted), my_rows(e, op, thread, threads) as row:
                place = row / n
                tile = r.out + place * r.out_stride * n
                quantise_row(e, r.x + row * r.x_stride, r.width, tile, row - place * n, n, fine)

    return body


def quantise_row(e: Emitter, x: Value, width: Value, tile: Value, lane: Value, n: int, fine: bool = False) -> None:
    """Write one row into place `lane` of a tile of `n`."""
    codes = tile + lane * 4
    scales = codes + width * n
    sums = scales + (width >> 3) * n
    halves = sums + (width >> 3) * n
    with e.loop(0, width, 32) as k:
        parts = [e.load(x + (k + 16 * j) * 4, WIDE) for j in range(2)]
        # Sizes of floats compare like their bits, and NaN is above everything.
        top = e.bits(e.largest(e.maximum(*(e.bits(v, vec(I32, 16)) & 0x7FFFFFFF for v in parts))), F32)
        scale = top * (1.0 / 127 / (256 if fine else 1))
        inverse = e.splat(e.select(top > 0.0, e.const(F32, 127.0) / top, 0.0), 16)
        group = (k >> 3) * n
        planes = list(zip(*(split(e, v * inverse, fine) for v in parts), strict=True))
        fours = e.const(vec(I32, 8))
        for place, plane in zip((codes, halves + (width >> 2) * n), planes, strict=False):
            bytes32 = e.join(*plane)
            words = e.bits(bytes32, vec(I32, 8))
            for word in range(8):
                e.store(e.lane(words, word), place + k * n + word * 4 * n)
            fours = e.dot(fours << 8, e.const(bytes32.kind, 1), bytes32, False)
        pairs = fours + e.pick(fours, [1, 0, 3, 2, 5, 4, 7, 6])
        low, high = (e.lane(pairs, j) + e.lane(pairs, j + 2) for j in (0, 4))
        for j, total in enumerate((low, high)):
            e.store(e.to_float(total) * scale, halves + group * 2 + 4 * n * j)
        e.store(scale, scales + group)
        e.store(e.to_float(low + high) * scale, sums + group)


def split(e: Emitter, x: Value, fine: bool) -> list[Value]:
    """Numbers within +-127 as one plane of whole codes i8, or as two: codes, and 256ths of what these leave."""
    code = e.round(x)
    planes = [code] + ([e.round((x - code) * 256.0)] if fine else [])
    if fine:
        planes[1] = e.select(planes[1] > 127.0, e.const(x.kind, 127.0), planes[1])
        planes[1] = e.select(planes[1] < -127.0, e.const(x.kind, -127.0), planes[1])
    return [e.narrow(e.to_int(plane), vec(I8, 16)) for plane in planes]


def quantise_rows(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """As `quantise` does one row alone, however many there are: each of a row's groups becomes a row of its own."""
    r = QUANTISE.read(e, op)
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.groups) as group:
        x = r.x + row * r.x_stride + group * r.width * 4
        quantise_row(e, x, r.width, r.out + (row * r.groups + group) * r.out_stride, e.const(I64, 0), 1)
