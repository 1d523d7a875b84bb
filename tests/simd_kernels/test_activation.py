"""The fine form of activations: 16 bits in two planes, and the linear layers that read it."""

import numpy as np
import pytest

from edgeinfer.formats import dequantize
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.simd_kernels import layout, record
from tests.blocks import QUANTS, random_rows
from tests.simd_kernels.harness import guarded, padded_rows, write


def numbers(*shape):
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


def quantised(kernels, x):
    """uint8[rows, stride] in tiles, as `quantise.fine` writes them."""
    rows, width = x.shape
    each, n = layout.activation_bytes(width, fine=True), kernels.tier.tile_tokens
    out = guarded(np.full((layout.up(rows, n) if rows > 1 else 1, each), 255, np.uint8))
    fields = {"width": width, "groups": 1, "out": out, "out_stride": each}
    kernels.operate("quantise.fine", record.QUANTISE, rows, x=padded_rows(x), **fields)
    return out


def test_sixteen_bits(kernels):
    x = numbers(1, 96) * 3
    x[0, 32:64] = 0
    data = quantised(kernels, x)[0]
    high, low = data[:96].view(np.int8).astype(int), data[144:240].view(np.int8).astype(int)
    scales = data[96:108].view(np.float32)
    exact = (256 * high + low) * np.repeat(scales.astype(np.float64), 32)
    step = np.repeat(np.abs(x.reshape(-1, 32)).max(axis=-1) / 127 / 256, 32)
    assert (np.abs(exact - x[0]) <= 1.01 * step).all() and np.abs(low).max() <= 127
    sums = data[108:120].view(np.float32)
    assert np.allclose(sums, exact.reshape(-1, 32).sum(axis=-1), rtol=1e-5, atol=1e-5)


def test_what_is_not_finite_stays_so(kernels):
    x = numbers(1, 64)
    x[0, 5], x[0, 40] = np.nan, np.inf
    assert not np.isfinite(quantised(kernels, x)[0, 64:72].view(np.float32)).any()


@pytest.mark.parametrize("kind", QUANTS)
@pytest.mark.parametrize("tokens", [1, 7])
def test_linear(kernels, kind, tokens):
    rows, cols, tier, sizes = 37, 768, kernels.tier, GgmlType[kind]
    blocks = guarded(random_rows(np.random.default_rng(0), kind, rows, cols))
    x, out = numbers(tokens, cols), padded_rows(np.full((tokens, rows), np.nan, np.float32))
    each = layout.scratch_bytes(layout.up(tokens, tier.tile_tokens), tier.tile_rows, cols)
    source, scratch = quantised(kernels, x), guarded(np.zeros(each, np.uint8))
    step = write(record.STEP, tokens=tokens, scratch=scratch, scratch_bytes=each)
    fields = {
        "x": source.ctypes.data, "x_stride": layout.activation_bytes(cols, fine=True), "w": blocks,
        "row_bytes": blocks.shape[1], "rows": rows, "cols": cols, "chunk": 9, "counter": np.zeros(1, np.int64),
        "dot": kernels.address(f"dot.fine.{kind}"), "unpack": kernels.address(f"unpack.{kind}"),
        "transpose": kernels.address("transpose"), "tile": kernels.address(f"{layout.tile_name(kind)}.fine"),
        "block": sizes.block, "block_bytes": sizes.bytes, "group": layout.group(kind),
    }  # fmt: skip
    kernels.operate("linear.fine", record.LINEAR, tokens, 1, step, out=out, **fields)
    w = dequantize(blocks, kind).astype(np.float64)
    size = np.abs(x).astype(np.float64) @ np.abs(w).T
    # 16-bit activations, and what float32 loses where a code's offset cancels: far below the 2**-8 of 8 bits.
    assert (np.abs(out - x.astype(np.float64) @ w.T) <= 2.0**-13 * size).all()
