"""Activations as codes, in spans and in tiles, plain and fine, against numpy; linear layers that read fine ones."""

import numpy as np
import pytest

from edgeinfer.formats import dequantize
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.simd_kernels import layout, record
from tests.blocks import random_rows
from tests.simd_kernels import twins
from tests.simd_kernels.harness import guarded, padded_rows, write

FEW, TILED = 100, 0  # most rows that go in spans


def numbers(*shape):
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


def quantised(kernels, x, few=FEW, threads=1, fine=False):
    """uint8[rows, stride] as `quantise` writes them, 255 where it wrote nothing."""
    rows, width = x.shape
    each, n = layout.activation_bytes(width, fine), 2 if rows <= few else kernels.tier.tile_tokens
    out = guarded(np.full((layout.up(rows, n) if rows > 1 else 1, each), 255, np.uint8))
    fields = {"width": width, "groups": 1, "out": out, "out_stride": each}
    kernel, step = f"quantise{'.fine' * fine}", write(record.STEP, few=few)
    kernels.operate(kernel, record.QUANTISE, rows, threads, step, x=padded_rows(x), **fields)
    return out


def odd_sizes(rows, width):
    x = numbers(rows, width) * np.float32(10.0) ** np.arange(rows, dtype=np.float32)[:, None]
    x[0, :32] = 0
    return x


@pytest.mark.parametrize("width", [32, 96, 256, 576])
@pytest.mark.parametrize("rows, threads", [(2, 1), (5, 2), (7, 3), (16, 2), (19, 2)])
def test_rows_in_spans(kernels, width, rows, threads):
    x = odd_sizes(rows, width)
    assert (quantised(kernels, x, FEW, threads).reshape(-1) == twins.spans(*twins.quantise(x))).all()


@pytest.mark.parametrize("width", [32, 64, 96, 576])
@pytest.mark.parametrize("rows, threads", [(2, 1), (3, 1), (5, 1), (6, 1), (7, 1), (17, 2), (19, 3), (25, 9)])
def test_rows_in_tiles(kernels, width, rows, threads):
    x, n = odd_sizes(rows, width), kernels.tier.tile_tokens
    want = twins.tiles(*twins.quantise(x), kernels.tier)
    got, used = quantised(kernels, x, TILED, threads).reshape(len(want), -1), n * width * 3 // 2
    there = np.arange(len(want) * n).reshape(len(want), 1, n) < rows  # places that belong to a row
    same = (got[:, :used] == want[:, :used]).reshape(len(want), -1, n, 4)
    assert (same | ~there[..., None]).all() and (got[:, used:] == 255).all()


@pytest.mark.parametrize("width", [32, 96, 576])
def test_one_row(kernels, width):
    x = odd_sizes(1, width)
    x[0, -32:] = numbers(32)
    assert (quantised(kernels, x).reshape(-1) == twins.row(*twins.quantise(x))).all()


@pytest.mark.parametrize("rows", [1, 2])
def test_halves_round_to_even(kernels, rows):
    x = np.tile(np.array([127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5] * 4, np.float32), (rows, 1))
    assert twins.quantise(x)[0][0, :8].tolist() == [127, 0, 2, 2, 0, -2, -2, 126]
    want = twins.row(*twins.quantise(x)) if rows == 1 else twins.spans(*twins.quantise(x))
    assert (quantised(kernels, x).reshape(-1) == want).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rows, few", [(1, FEW), (2, FEW), (2, TILED)])
@pytest.mark.parametrize("at", [0, 17, 63])
def test_a_row_that_is_not_finite_gets_such_scales(kernels, bad, rows, few, at):
    x = numbers(rows, 64)
    x[0, at] = bad
    got = quantised(kernels, x, few).reshape(-1)
    if few == TILED or rows == 1:
        n = kernels.tier.tile_tokens if rows > 1 else 1
        scales = got[64 * n : 72 * n].view(np.float32).reshape(2, n).T[:rows]
    else:
        scales = got[512:576].view(np.float32).reshape(2, 8)[:, :2]
    assert np.isfinite(scales).tolist() == [[group != at // 32 or row > 0 for group in range(2)] for row in range(rows)]


def test_tiny_numbers(kernels):
    """So small that 127 / largest overflows: codes must not be wild."""
    got = quantised(kernels, np.full((1, 32), 1e-44, np.float32))[0]
    scale, total = got[32:40].view(np.float32)
    assert np.isfinite([scale, total]).all() and abs(scale) < 1e-40


def test_sixteen_bits(kernels):
    x = numbers(1, 96) * 3
    x[0, 32:64] = 0
    data = quantised(kernels, x, fine=True)[0]
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
    assert not np.isfinite(quantised(kernels, x, fine=True)[0, 64:72].view(np.float32)).any()


def fine_linear(kernels, kind, blocks, x, few):
    tokens, cols = x.shape
    rows, tier, sizes = len(blocks), kernels.tier, GgmlType[kind]
    out = padded_rows(np.full((tokens, rows), np.nan, np.float32))
    each = layout.scratch_bytes(layout.up(tokens, tier.tile_tokens), tier.panel_rows, cols)
    source, scratch = quantised(kernels, x, few, fine=True), guarded(np.zeros(each, np.uint8))
    step = write(record.STEP, tokens=tokens, scratch=scratch, scratch_bytes=each, few=few)
    fields = {
        "x": source.ctypes.data, "x_stride": layout.activation_bytes(cols, fine=True), "w": blocks,
        "row_bytes": blocks.shape[1], "rows": rows, "cols": cols, "chunk": 9, "counter": np.zeros(1, np.int64),
        "dot": kernels.address(f"dot.fine.{kind}"), "few": kernels.address(f"few.fine.{kind}"),
        "panel": kernels.address(f"panel.{kind}"),
        "tile": kernels.address(layout.tile_name(kind)),
        "block": sizes.block, "block_bytes": sizes.bytes, "group": layout.group(kind),
    }  # fmt: skip
    kernels.operate("linear.fine", record.LINEAR, tokens, 1, step, out=out, **fields)
    return out


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0", "Q4_K", "Q6_K", "IQ4_NL", "IQ4_XS", "NVFP4"])  # each kind of tile
def test_linear(kernels, kind):
    blocks, x = guarded(random_rows(np.random.default_rng(0), kind, 37, 768)), numbers(7, 768)
    few = fine_linear(kernels, kind, blocks, x, FEW)
    w = dequantize(blocks, kind).astype(np.float64)
    size = np.abs(x).astype(np.float64) @ np.abs(w).T
    # 16-bit activations, and what float32 loses where a code's offset cancels: far below the 2**-8 of 8 bits.
    for out in (few, fine_linear(kernels, kind, blocks, x, TILED), fine_linear(kernels, kind, blocks, x[:1], FEW)):
        n = len(out)
        assert (np.abs(out - x[:n].astype(np.float64) @ w.T) <= 2.0**-13 * size[:n]).all()
    assert (few[:2] == fine_linear(kernels, kind, blocks, x[:2], FEW)).all()  # to the last bit
