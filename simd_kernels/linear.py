"""Linear layers and embeddings: the kernels that walk over weight matrices and call the tensor type's own kernels.

One row of activations: rows of weights go through the type's `dot`, straight from the file's pages, at the speed of
memory.  A few: through its `few`, which unpacks each weight once for all of them.  More: panels of `tile_rows` weight
rows are unpacked into L1, and all rows of activations pass through the register tile (tile.py).  Workers claim chunks
or panels from a counter, so that a core that is taken away for a while holds nobody up for long.
"""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import BIAS_AT, DEPTH, FEW, FLOAT_DEPTH, PANEL_AT, SPARE
from edgeinfer.simd_kernels.panel import as_high_codes, panel_size
from edgeinfer.simd_kernels.parts import by_parts
from edgeinfer.simd_kernels.record import EMBED, LINEAR, STEP
from edgeinfer.simd_kernels.rows import add_to, claimed, dot_rows, get, my_rows, path, put, sweep
from edgeinfer.simd_kernels.tile import EVERY
from edgeinfer.simd_kernels.values import F32, I8, I32, I64, Value, vec


def linear(quantised: bool, fine: bool = False) -> Callable[..., None]:
    """out = x . w^T + bias."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        tokens, s = e.load(e.field(op, 2), I64), STEP.read(e, step)
        alone, few, many = path(tokens, s.few, s.uniform)
        with e.when(alone):
            one_row(e, op, step, thread)
        with e.when(few):
            few_rows(e, op, step, thread, tokens)
        with e.when(many):
            many_rows(e, op, step, thread, threads, quantised, fine)

    return body


def one_row(e: Emitter, op: Value, step: Value, thread: Value) -> None:
    r = LINEAR.read(e, op)

    def make(first: Value, count: Value, out: Value) -> None:
        dot_rows(e, r, r.w + first * r.row_bytes, count, r.x, out, r.bias + first * 4)

    by_parts(e, op, step, thread, r, r.out, make)


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


def many_rows(e: Emitter, op: Value, step: Value, thread: Value, threads: Value, quantised: bool, fine: bool) -> None:
    """Panel by panel: sums begin as the bias, are kept in the worker's scratch from one panel of columns to the next,
    and go from the last one straight to `out`, but for those of tiles that reach over its edges."""
    r, s, tokens = LINEAR.read(e, op), STEP.read(e, step), e.load(e.field(op, 2), I64)
    n, tile, most = e.tier.panel_rows, e.tier.tile_tokens, DEPTH if quantised else FLOAT_DEPTH
    scratch = s.scratch + thread * s.scratch_bytes
    bias, sums = scratch + BIAS_AT, scratch + SPARE
    kept, tiles = (sums, e.const(I64, 4 * n)), (tokens + (tile - 1)) / tile
    with claimed(e, r.counter, e.const(I64, n), r.rows) as (first, count):
        begin(e, r, first, bias)
        inside = e.select(count.equals(n), tokens / tile, 0)
        panels = (count + (e.tier.tile_rows - 1)) / e.tier.tile_rows
        with e.loop(0, r.cols, most) as k:
            depth = e.least(e.const(I64, most), r.cols - k)
            with e.loop(0, panels) as p:
                place = (first + p * e.tier.tile_rows, scratch + PANEL_AT + p * panel_size(e.tier))
                panel(e, r, scratch, *place, k, depth)
            start = (e.select(k > 0, sums, bias), e.select(k > 0, kept[1], 0))
            x = codes_at(e, r, k) if quantised else (r.x + k * 4, r.x_stride)
            run = partial(pass_tiles, e, r, scratch + PANEL_AT, (depth, panels))
            turns = tiles * panels * ((depth + (EVERY - 1)) / EVERY)
            ahead = (*panels_ahead(e, r, first + n * threads, first, k, depth), (turns + (n - 1)) / turns)
            if fine:  # the low codes go first, with what belongs to both
                low = (x[0] + (r.cols + (r.cols >> 1)) * tile, *x[1:])
                run(low, e.const(I64, 0), tiles, start, kept, ahead)
                with e.loop(0, panels) as p:
                    as_high_codes(e, scratch + PANEL_AT + p * panel_size(e.tier), depth / r.group)
                start = kept
            direct = e.select(k + depth >= r.cols, inside, 0)
            run(x, e.const(I64, 0), direct, start, (r.out + first * 4, r.out_stride), ahead)
            run(x, direct, tiles - direct, start, kept, ahead)
        write_out(e, r, sums, first, inside * tile, tokens)


def begin(e: Emitter, r: SimpleNamespace, first: Value, out: Value) -> None:
    """out f32[panel_rows] = the biases of rows from `first` on, zeros where there are none."""
    n = e.tier.panel_rows
    with e.loop(0, n) as i:
        e.store(e.const(F32), out + i * 4)
    with e.when(r.bias > 0), e.loop(0, e.least(e.const(I64, n), r.rows - first)) as i:
        e.store(e.load(r.bias + (first + i) * 4, F32), out + i * 4)


def codes_at(e: Emitter, r: SimpleNamespace, k: Value) -> tuple[Value, ...]:
    """Of the first tile of tokens, from column `k` on: codes, bytes to the next tile's, scales, which lie behind all
    codes, and sums over 32 codes or 16, behind them in turn (activation.quantise)."""
    n = e.tier.tile_tokens
    eighth, scales = (r.cols >> 3) * n, r.x + r.cols * n
    over_16 = e.select(r.group.equals(16), eighth, 0)
    return r.x + k * n, r.x_stride * n, scales + (k >> 3) * n, scales + eighth + over_16 + (k / r.group) * (4 * n)


Place = tuple[Value, Value]  # an address and a stride


def pass_tiles(
    e: Emitter,
    r: SimpleNamespace,
    panel: Value,
    sizes: tuple[Value, Value],
    x: tuple[Value, ...],
    first: Value,
    count: Value,
    start: Place,
    out: Place,
    ahead: tuple[Value, ...],
) -> None:
    """Pass `count` tiles of tokens, from number `first` on, over the panels; `sizes`: their columns, how many."""
    token = first * e.tier.tile_tokens
    begun, done = ((at + token * apart, apart) for at, apart in (start, out))
    codes, stride, *numbers = x
    place = token * r.x_stride
    with e.when(count > 0):
        numbers = [at + place for at in numbers]
        e.jump(r.tile, panel, codes + place, stride, *numbers, *sizes, count, *begun, *done, *ahead)


def panels_ahead(
    e: Emitter, r: SimpleNamespace, next_first: Value, first: Value, k: Value, depth: Value
) -> tuple[Value, ...]:
    """Where the weights of the next panels are, as tile.Ahead wants it: further columns of these rows, or the first
    ones of rows that are this worker's next if all go on equally fast."""
    more, size = k + depth < r.cols, (depth / r.block) * r.block_bytes
    row, column = e.select(more, first, next_first), e.select(more, k + depth, 0)
    return r.w + row * r.row_bytes + (column / r.block) * r.block_bytes, r.row_bytes, size


def panel(e: Emitter, r: SimpleNamespace, scratch: Value, first: Value, out: Value, k: Value, depth: Value) -> None:
    """Columns k .. k + depth of `tile_rows` rows from `first` on, `lanes` rows at a time; rows past the end repeat the
    last one."""
    at, rows = r.w + (k / r.block) * r.block_bytes, r.rows - first
    with e.loop(0, e.tier.tile_rows, e.tier.lanes) as some:
        begin = e.least(some, rows - 1)
        e.jump(r.panel, at + (first + begin) * r.row_bytes, r.row_bytes, rows - begin, depth, scratch, out + some * 4)


def write_out(e: Emitter, r: SimpleNamespace, sums: Value, first: Value, start: Value, tokens: Value) -> None:
    """Sums of tokens from number `start` on, of as many rows as there are."""
    n = e.tier.panel_rows
    width = e.least(e.const(I64, n), r.rows - first)
    with e.loop(start, tokens) as t:
        source, out = sums + t * (4 * n), r.out + t * r.out_stride + first * 4
        sweep(e, width, lambda k, mask: put(e, get(e, source + k * 4, mask), out + k * 4, mask))


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
