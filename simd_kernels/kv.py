"""The KV cache's layout, and writing to it.

A block holds 16 tokens.  Its keys lie as [key_dim][16], so that 16 tokens are the lanes of a score, its values as
[16][value_dim], padded to a multiple of 32 dims, so that dims are the lanes of the output; no sums across lanes
anywhere.  A layer's pool has for each KV head the keys of all blocks, then their values: a sequence mostly has blocks
that follow each other, so a head's keys are read in one go.  It finds the block of position p at entry p / 16 of its
table.

q8_0 has codes and a half-float scale for every 32 dims of a token, key_dim padded to a multiple of 32 as well: keys
as [key_dim / 4][16][4] codes, raised by 128, as the dot product of bytes takes them, and [key_dim / 32][16] scales;
values as [16][value_dim] codes and [value_dim / 32][16] scales.
"""

from collections.abc import Callable
from types import SimpleNamespace

from edgeinfer.simd_kernels.activation import codes_of
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import BLOCK
from edgeinfer.simd_kernels.layout import KV_BYTES as BYTES
from edgeinfer.simd_kernels.record import STEP, STORE
from edgeinfer.simd_kernels.rows import get, my_rows
from edgeinfer.simd_kernels.values import F32, I32, I64, Value, vec


def padded(dims: Value) -> Value:
    """Dims up to a multiple of 32."""
    return (dims + 31) & -32


class Store:
    """Append the step's keys and values to the cache."""

    def __init__(self, kv_type: str) -> None:
        self.kv_type = kv_type

    def body(self, e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        r, s = STORE.read(e, op), STEP.read(e, step)
        with my_rows(e, op, thread, threads) as row:
            behind = e.field(s.positions + row * 8, 0) + 1
            position = behind / r.stride - 1
            with e.when(behind.equals((position + 1) * r.stride)), e.loop(0, r.kv_heads) as head:
                number = e.widen(e.load(e.field(r.tables + row * 8, 0) + (position >> 4) * 4, I32), I64)
                slot = position & (BLOCK - 1)
                keys = r.pool + head * r.head_bytes
                places = keys + number * r.key_bytes, keys + r.value_at + number * r.value_bytes
                k = r.k + row * r.k_stride + head * r.key_dim * 4
                v = r.v + row * r.v_stride + head * r.value_dim * 4
                store = self._quantised if self.kv_type == "q8_0" else self._plain
                store(e, r, *places, slot, k, v)

    def _plain(
        self, e: Emitter, r: SimpleNamespace, keys: Value, values: Value, slot: Value, k: Value, v: Value
    ) -> None:
        size = BYTES[self.kv_type]
        row = values + slot * padded(r.value_dim) * size

        def key(d: Value, numbers: Value) -> None:
            for i in range(numbers.lanes):
                e.store(e.part(numbers, i, 1), keys + ((d + i) * BLOCK + slot) * size)

        self._numbers(e, k, r.key_dim, key)
        self._numbers(e, v, r.value_dim, lambda d, numbers: e.store(numbers, row + d * size))

    def _numbers(self, e: Emitter, x: Value, dims: Value, take: Callable[[Value, Value], None]) -> None:
        """take(d, the numbers of dims from d on as they are kept): 16 of them, or one where fewer are left."""
        whole = dims & -16
        for start, stop, lanes in ((e.const(I64, 0), whole, 16), (whole, dims, 1)):
            with e.loop(start, stop, lanes) as d:
                numbers = e.load(x + d * 4, vec(F32, lanes))
                take(d, e.float_to_half(numbers) if self.kv_type == "f16" else numbers)

    def _quantised(
        self, e: Emitter, r: SimpleNamespace, keys: Value, values: Value, slot: Value, k: Value, v: Value
    ) -> None:
        scales, width = keys + padded(r.key_dim) * BLOCK, padded(r.value_dim)

        def key(d: Value, codes: Value, scale: Value) -> None:
            words = e.bits(codes ^ -128, vec(I32, 8))
            for word in range(8):
                e.store(e.lane(words, word), keys + d * BLOCK + (word * BLOCK + slot) * 4)
            e.store(e.float_to_half(e.splat(scale, 1)), scales + (d >> 5) * (2 * BLOCK) + slot * 2)

        def value(d: Value, codes: Value, scale: Value) -> None:
            e.store(codes, values + slot * width + d)
            e.store(e.float_to_half(e.splat(scale, 1)), values + width * BLOCK + (d >> 5) * (2 * BLOCK) + slot * 2)

        quantised(e, k, r.key_dim, key)
        quantised(e, v, r.value_dim, value)


def quantised(e: Emitter, x: Value, dims: Value, take: Callable[[Value, Value, Value], None]) -> None:
    """take(d, codes i8[32], scale) for d = 0, 32, ... of the `dims` numbers at `x`, zeros behind them."""
    whole = dims & -32
    with e.loop(0, whole, 32) as d:
        take(d, *codes_of(e, [get(e, x + (d + at) * 4, None) for at in (0, 16)]))
    with e.when(dims > whole):
        take(whole, *codes_of(e, [get(e, x + (whole + at) * 4, e.first(dims - whole - at, 16)) for at in (0, 16)]))
