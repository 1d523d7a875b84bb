"""Linear layers and embeddings: the kernels that walk over weight matrices and call the tensor type's own kernels.

One row of activations: rows of weights go through the type's `dot`, straight from the file's pages, at the speed of
memory.  A few: through its `few`, which unpacks each weight once for all of them.  More: panels of `tile_rows` weight
rows are unpacked into L1, and all rows of activations pass through the register tile (tile.py).  Workers claim chunks
or panels from a counter, so that a core that is taken away for a while holds nobody up for long.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import F32, I8, I32, I64, Emitter, Value, vec
from edgeinfer.simd_kernels.layout import DEPTH, FEW, FLOAT_DEPTH, SPARE
from edgeinfer.simd_kernels.record import EMBED, LINEAR, STEP
from edgeinfer.simd_kernels.rows import WIDE, add_to, get, my_rows, put, sweep


def linear(quantised: bool, fine: bool = False) -> Callable[..., None]:
    """out = x . w^T + bias."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        tokens, few = e.load(e.field(op, 2), I64), STEP.read(e, step).few
        with e.when(tokens.equals(1)):
            one_row(e, op)
        with e.when((tokens > 1) & (tokens <= few)):
            few_rows(e, op, step, thread, tokens)
        with e.when((tokens > 1) & (tokens > few)):
            many_rows(e, op, step, thread, tokens, quantised, fine)

    return body


def one_row(e: Emitter, op: Value) -> None:
    r = LINEAR.read(e, op)
    with e.forever() as leave:
        first = e.claim(r.counter) * r.chunk
        leave(first >= r.rows)
        count = e.least(r.chunk, r.rows - first)
        out = r.out + first * 4
        e.jump(r.dot, r.w + first * r.row_bytes, r.row_bytes, count, r.x, r.cols, out)
        with e.when(r.bias > 0):
            add_to(e, out, r.bias + first * 4, count)


def few_rows(e: Emitter, op: Value, step: Value, thread: Value, tokens: Value) -> None:
    """Chunks of weights are claimed as for one row, and pass FEW rows of activations at a time."""
    r, s = LINEAR.read(e, op), STEP.read(e, step)
    scratch = s.scratch + thread * s.scratch_bytes
    with e.forever() as leave:
        first = e.claim(r.counter) * r.chunk
        leave(first >= r.rows)
        count = e.least(r.chunk, r.rows - first)
        with e.loop(0, tokens, FEW) as token:
            x, out = r.x + token * r.x_stride, r.out + token * r.out_stride + first * 4
            some = e.least(tokens - token, e.const(I64, FEW))
            w = r.w + first * r.row_bytes
            e.jump(r.few, w, r.row_bytes, count, x, r.x_stride, r.cols, out, r.out_stride, some, scratch)
        with e.when(r.bias > 0), e.loop(0, tokens) as token:
            add_to(e, r.out + token * r.out_stride + first * 4, r.bias + first * 4, count)


def many_rows(e: Emitter, op: Value, step: Value, thread: Value, tokens: Value, quantised: bool, fine: bool) -> None:
    r, s = LINEAR.read(e, op), STEP.read(e, step)
    n = e.tier.tile_rows
    scratch = s.scratch + thread * s.scratch_bytes
    sums = scratch + SPARE
    tiles = ((tokens + (e.tier.tile_tokens - 1)) / e.tier.tile_tokens) * e.tier.tile_tokens
    with e.forever() as leave:
        first = e.claim(r.counter) * n
        leave(first >= r.rows)
        with e.loop(0, tiles * n, 16) as k:
            e.store(e.const(WIDE), sums + k * 4)
        with e.loop(0, r.cols, DEPTH if quantised else FLOAT_DEPTH) as k:
            depth = e.least(e.const(I64, DEPTH if quantised else FLOAT_DEPTH), r.cols - k)
            (panel if quantised else float_panel)(e, r, scratch, first, k, depth)
            with e.loop(0, tiles, e.tier.tile_tokens) as t:
                tile_sums = sums + t * (4 * n)
                if quantised:
                    sweep_codes(e, r, scratch, tile_sums, t, k, depth, fine)
                else:
                    sweep_floats(e, r, scratch, tile_sums, t, k, depth)
        write_out(e, r, sums, first, tokens)


def each_row(
    e: Emitter, r: SimpleNamespace, first: Value, k: Value
) -> tuple[AbstractContextManager[Value], Callable[[Value], Value]]:
    """(number in the panel, address of column k of the row); rows past the end repeat the last one."""
    n = e.tier.tile_rows
    at = (k / r.block) * r.block_bytes
    return e.loop(0, n), lambda row: r.w + e.least(first + row, r.rows - 1) * r.row_bytes + at


def panel(e: Emitter, r: SimpleNamespace, scratch: Value, first: Value, k: Value, depth: Value) -> None:
    """Unpack columns k .. k + depth of `tile_rows` rows, then transpose codes, scales and minimums."""
    n = e.tier.tile_rows
    scales, minimums = scratch + n * DEPTH, scratch + n * (DEPTH + 128)
    rows, address = each_row(e, r, first, k)
    with rows as row:
        e.jump(r.unpack, address(row), depth, scratch + row * DEPTH, scales + row * 128, minimums + row * 128)
    codes_out, scales_out, minimums_out = panel_parts(e, scratch)
    groups = depth / r.group
    e.jump(r.transpose, scratch, DEPTH, depth >> 2, codes_out)
    e.jump(r.transpose, scales, 128, groups, scales_out)
    e.jump(r.transpose, minimums, 128, groups, minimums_out)


def panel_parts(e: Emitter, scratch: Value) -> tuple[Value, Value, Value]:
    """Where the codes, scales and minimums of the panel are: behind the unpacked rows."""
    n = e.tier.tile_rows
    start = scratch + n * (DEPTH + 256)
    return start, start + n * DEPTH, start + n * (DEPTH + 128)


def float_panel(e: Emitter, r: SimpleNamespace, scratch: Value, first: Value, k: Value, depth: Value) -> None:
    n = e.tier.tile_rows
    rows, address = each_row(e, r, first, k)
    with rows as row:
        e.jump(r.unpack, address(row), depth, scratch + row * (4 * FLOAT_DEPTH), 0, 0)
    e.jump(r.transpose, scratch, 4 * FLOAT_DEPTH, depth, scratch + n * 4 * FLOAT_DEPTH)


def sweep_codes(
    e: Emitter, r: SimpleNamespace, scratch: Value, out: Value, t: Value, k: Value, depth: Value, fine: bool
) -> None:
    """Pass one tile of tokens; in it, scales lie behind the codes, then sums over 32 codes, then sums over 16, then
    the low codes where it is fine (activation.quantise)."""
    n = e.tier.tile_tokens
    tile = r.x + t * r.x_stride
    d = tile + r.cols * n
    eighth = (r.cols >> 3) * n
    over_16 = e.select(r.group.equals(16), eighth, 0)
    sums = d + eighth + over_16 + (k / r.group) * (4 * n)
    low = [d + (r.cols >> 1) * n + k * n] if fine else []
    e.jump(r.tile, *panel_parts(e, scratch), tile + k * n, d + (k >> 3) * n, sums, depth, out, *low)


def sweep_floats(e: Emitter, r: SimpleNamespace, scratch: Value, out: Value, t: Value, k: Value, depth: Value) -> None:
    numbers = scratch + e.tier.tile_rows * 4 * FLOAT_DEPTH
    e.jump(r.tile, numbers, r.x + t * r.x_stride + k * 4, r.x_stride, depth, out)


def write_out(e: Emitter, r: SimpleNamespace, sums: Value, first: Value, tokens: Value) -> None:
    n = e.tier.tile_rows
    width = e.least(e.const(I64, n), r.rows - first)
    with e.loop(0, tokens) as t:
        source, out = sums + t * (4 * n), r.out + t * r.out_stride + first * 4

        def move(k: Value, mask: Value | None) -> None:
            put(e, get(e, source + k * 4, mask), out + k * 4, mask)

        def move_with_bias(k: Value, mask: Value | None) -> None:
            put(e, get(e, source + k * 4, mask) + get(e, r.bias + (first + k) * 4, mask), out + k * 4, mask)

        with e.when(r.bias.equals(0)):
            sweep(e, width, move)
        with e.when(r.bias > 0):
            sweep(e, width, move_with_bias)


def embed(quantised: bool) -> Callable[..., None]:
    """Rows of the table, by the numbers of the tokens, as f32 and times `scale`."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        r, s = EMBED.read(e, op), STEP.read(e, step)
        scratch = s.scratch + thread * s.scratch_bytes
        factor = e.splat(r.scale_f32, 16)
        with my_rows(e, op, thread, threads) as row:
            source, out = r.table + e.field(r.numbers + row * 8, 0) * r.row_bytes, r.out + row * r.out_stride
            if not quantised:
                e.jump(r.unpack, source, r.cols, out, 0, 0)
                sweep(e, r.cols, lambda k, mask: put(e, get(e, out + k * 4, mask) * factor, out + k * 4, mask))
            else:
                scales, minimums = scratch + r.cols, scratch + r.cols * 2
                e.jump(r.unpack, source, r.cols, scratch, scales, minimums)
                with e.loop(0, r.cols, 16) as k:
                    code = e.to_float(e.widen(e.load(scratch + k, vec(I8, 16)), vec(I32, 16)))
                    group = (k / r.group) * 4
                    scale, minimum = (e.splat(e.load(at + group, F32), 16) for at in (scales, minimums))
                    e.store(e.fma(code, scale, minimum) * factor, out + k * 4)

    return body
