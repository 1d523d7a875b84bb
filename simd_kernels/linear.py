"""Linear layers and embeddings: the kernels that walk over weight matrices and call the tensor type's own kernels.

One row of activations: rows of weights go through the type's `dot`, straight from the file's pages, at the speed of
memory.  A few: through its `few`, which unpacks each weight once for all of them.  More: panels of `tile_rows` weight
rows are unpacked into L1, and all rows of activations pass through the register tile (tile.py).  Workers claim chunks
or panels from a counter, so that a core that is taken away for a while holds nobody up for long.
"""

from collections.abc import Callable
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import F32, I8, I32, I64, Emitter, Value, vec
from edgeinfer.simd_kernels.layout import DEPTH, FEW, FLOAT_DEPTH, PANEL_AT, SPARE
from edgeinfer.simd_kernels.record import EMBED, LINEAR, STEP
from edgeinfer.simd_kernels.rows import WIDE, add_to, claimed, get, my_rows, path, put, sweep
from edgeinfer.simd_kernels.tile import as_high_codes, panel_parts, set_starts


def linear(quantised: bool, fine: bool = False) -> Callable[..., None]:
    """out = x . w^T + bias."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        tokens, s = e.load(e.field(op, 2), I64), STEP.read(e, step)
        alone, few, many = path(tokens, s.few, s.uniform)
        with e.when(alone):
            one_row(e, op)
        with e.when(few):
            few_rows(e, op, step, thread, tokens)
        with e.when(many):
            many_rows(e, op, step, thread, tokens, quantised, fine)

    return body


def one_row(e: Emitter, op: Value) -> None:
    r = LINEAR.read(e, op)
    with claimed(e, r.counter, r.chunk, r.rows) as (first, count):
        out = r.out + first * 4
        e.jump(r.dot, r.w + first * r.row_bytes, r.row_bytes, count, r.x, r.cols, out)
        with e.when(r.bias > 0):
            add_to(e, out, r.bias + first * 4, count)


def few_rows(e: Emitter, op: Value, step: Value, thread: Value, tokens: Value) -> None:
    """Chunks of weights are claimed as for one row, and pass FEW rows of activations at a time."""
    r, s = LINEAR.read(e, op), STEP.read(e, step)
    scratch = s.scratch + thread * s.scratch_bytes
    with claimed(e, r.counter, r.chunk, r.rows) as (first, count):
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
    tiles = (tokens + (e.tier.tile_tokens - 1)) / e.tier.tile_tokens
    with e.forever() as leave:
        first = e.claim(r.counter) * n
        leave(first >= r.rows)
        with e.loop(0, tiles * (n * e.tier.tile_tokens), 16) as k:
            e.store(e.const(WIDE), sums + k * 4)
        with e.loop(0, r.cols, DEPTH if quantised else FLOAT_DEPTH) as k:
            depth = e.least(e.const(I64, DEPTH if quantised else FLOAT_DEPTH), r.cols - k)
            if quantised:
                panel(e, r, scratch, first, k, depth)
                sweep_codes(e, r, scratch, sums, tiles, k, depth, fine)
            else:
                float_panel(e, r, scratch, first, k, depth)
                sweep_floats(e, r, scratch, sums, tiles, k, depth)
        write_out(e, r, sums, first, tokens)


def panel(e: Emitter, r: SimpleNamespace, scratch: Value, first: Value, k: Value, depth: Value) -> None:
    """Unpack columns k .. k + depth of `tile_rows` rows, then transpose codes, scales and minimums, `lanes` rows at a
    time."""
    n, groups = e.tier.lanes, depth / r.group
    scales, minimums = scratch + n * DEPTH, scratch + n * (DEPTH + DEPTH // 4)
    parts = panel_parts(e, scratch + PANEL_AT)
    at = r.w + (k / r.block) * r.block_bytes
    with e.loop(0, e.tier.tile_rows, n) as block:
        with e.loop(0, n) as lane:
            row = e.least(first + block + lane, r.rows - 1)  # rows past the end repeat the last one
            out = (scratch + lane * DEPTH, scales + lane * (DEPTH // 4), minimums + lane * (DEPTH // 4))
            e.jump(r.unpack, at + row * r.row_bytes, depth, *out)
        e.jump(r.transpose, scratch, DEPTH, depth >> 2, parts.codes + block * 4)
        e.jump(r.transpose, scales, DEPTH // 4, groups, parts.scales + block * 4)
        e.jump(r.transpose, minimums, DEPTH // 4, groups, parts.minimums + block * 4)
    set_starts(e, parts.codes, r.group, groups)


def float_panel(e: Emitter, r: SimpleNamespace, scratch: Value, first: Value, k: Value, depth: Value) -> None:
    n, at = e.tier.lanes, r.w + (k / r.block) * r.block_bytes
    with e.loop(0, e.tier.tile_rows, n) as block:
        with e.loop(0, n) as lane:
            row = e.least(first + block + lane, r.rows - 1)
            e.jump(r.unpack, at + row * r.row_bytes, depth, scratch + lane * (4 * FLOAT_DEPTH), 0, 0)
        e.jump(r.transpose, scratch, 4 * FLOAT_DEPTH, depth, scratch + PANEL_AT + block * 4)


def sweep_codes(
    e: Emitter, r: SimpleNamespace, scratch: Value, out: Value, tiles: Value, k: Value, depth: Value, fine: bool
) -> None:
    """Pass all tiles of tokens; in one, scales lie behind the codes, then sums over 32 codes, then sums over 16
    (activation.quantise)."""
    n, at = e.tier.tile_tokens, scratch + PANEL_AT
    stride, eighth = r.x_stride * n, (r.cols >> 3) * n
    d, x = r.x + r.cols * n, r.x + k * n
    over_16 = e.select(r.group.equals(16), eighth, 0)
    numbers = (stride, d + (k >> 3) * n, d + eighth + over_16 + (k / r.group) * (4 * n), depth, tiles, out)
    if fine:  # the low codes go first, with what belongs to both
        e.jump(r.tile, at, x + (r.cols + (r.cols >> 1)) * n, *numbers)
        as_high_codes(e, at, depth / r.group)
    e.jump(r.tile, at, x, *numbers)


def sweep_floats(
    e: Emitter, r: SimpleNamespace, scratch: Value, out: Value, tiles: Value, k: Value, depth: Value
) -> None:
    n = e.tier.tile_tokens
    with e.loop(0, tiles) as tile:
        x, sums = r.x + tile * n * r.x_stride + k * 4, out + tile * (4 * n * e.tier.tile_rows)
        e.jump(r.tile, scratch + PANEL_AT, x, r.x_stride, depth, sums)


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
                    code = e.to_float(e.widen_signed(e.load(scratch + k, vec(I8, 16)), vec(I32, 16)))
                    group = (k / r.group) * 4
                    scale, minimum = (e.splat(e.load(at + group, F32), 16) for at in (scales, minimums))
                    e.store(e.fma(code, scale, minimum) * factor, out + k * 4)

    return body
