"""The register tiles and the transpose against numpy."""

import numpy as np
import pytest

from edgeinfer.simd_kernels.kernels import TILES
from tests.simd_kernels import twins
from tests.simd_kernels.harness import guarded

GROUPS = {t.name: (t.group, 255 if t.wide else 127) for t in TILES if not t.fine}  # test_activation.py has the fine ones


def sweep(kernels, name, codes, x_codes, x_scales, rng):
    """(got, want, sizes of terms) f32[tokens, rows] of one pass; codes u8[cols, rows], x i8[tokens, cols]."""
    group, rows, tokens = GROUPS[name][0], kernels.tier.tile_rows, kernels.tier.tile_tokens
    cols = len(codes)
    scales, minimums = rng.standard_normal((2, cols // group, rows), dtype=np.float32)
    start = rng.standard_normal((tokens, rows), dtype=np.float32)
    sums = twins.sums(x_codes, x_scales, group)
    panel = np.ascontiguousarray(codes.reshape(cols // 4, 4, rows).swapaxes(1, 2))
    x = np.ascontiguousarray(x_codes.reshape(tokens, -1, 4).swapaxes(0, 1))
    out = guarded(start)
    arrays = [panel, scales, minimums, x, x_scales.T, sums.T]
    kernels.call(name, *(guarded(np.ascontiguousarray(a)) for a in arrays), cols, out)
    w = np.repeat(scales, group, axis=0).astype(np.float64) * codes
    low = np.repeat(minimums, group, axis=0).astype(np.float64)
    exact_x = x_codes * np.repeat(x_scales, 32, axis=1).astype(np.float64)
    return out, start + exact_x @ (w + low), np.abs(start) + np.abs(exact_x) @ (np.abs(w) + np.abs(low))


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("cols", [32, 64, 96, 256, 512])
def test_tile(kernels, name, cols):
    rng, tier = np.random.default_rng(cols), kernels.tier
    codes = rng.integers(0, GROUPS[name][1] + 1, (cols, tier.tile_rows)).astype(np.uint8)
    x_codes, x_scales = twins.quantise(rng.standard_normal((tier.tile_tokens, cols), dtype=np.float32))
    got, want, size = sweep(kernels, name, codes, x_codes, x_scales, rng)
    assert (np.abs(got - want) <= 2e-6 * size).all()


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("sign", [-127, 127])
def test_tile_does_not_saturate(kernels, name, sign):
    tier = kernels.tier
    codes = np.full((64, tier.tile_rows), GROUPS[name][1], np.uint8)
    x_codes, x_scales = np.full((tier.tile_tokens, 64), sign, np.int8), np.ones((tier.tile_tokens, 2), np.float32)
    got, want, size = sweep(kernels, name, codes, x_codes, x_scales, np.random.default_rng(0))
    assert (np.abs(got - want) <= 2e-6 * size).all()


@pytest.mark.parametrize("cols", [1, 2, 31, 128])
def test_float_tile(kernels, cols):
    rng, tier = np.random.default_rng(cols), kernels.tier
    panel = rng.standard_normal((cols, tier.tile_rows), dtype=np.float32)
    x = guarded(rng.standard_normal((tier.tile_tokens, cols + 3), dtype=np.float32))[:, 3:]
    start = rng.standard_normal((tier.tile_tokens, tier.tile_rows), dtype=np.float32)
    out = guarded(start)
    kernels.call("tile.float", guarded(panel), x.ctypes.data, x.strides[0], cols, out)
    want = start + x.astype(np.float64) @ panel
    assert (np.abs(out - want) <= 2e-6 * (np.abs(start) + np.abs(x) @ np.abs(panel))).all()


@pytest.mark.parametrize("words", [1, 3, 4, 5, 8, 15, 16, 17, 32, 37])
def test_transpose(kernels, words):
    rows = kernels.tier.tile_rows
    source = guarded(np.arange(rows * (words + 2), dtype=np.int32).reshape(rows, -1))[:, 2:]
    out = guarded(np.full((words, rows), -1, np.int32))
    kernels.call("transpose", source.ctypes.data, source.strides[0], words, out)
    assert (out == source.T).all()
