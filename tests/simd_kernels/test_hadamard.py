"""The rotation against a matrix that is written down."""

import numpy as np
import pytest

from edgeinfer.simd_kernels import record
from tests.simd_kernels import twins
from tests.simd_kernels.harness import between_rows, guarded, padded_rows


def rotate(kernels, x, block, in_place=False, threads=1):
    x = padded_rows(x)
    out = x if in_place else padded_rows(np.full_like(x, np.nan))
    fields = {"x": x, "out": out, "width": x.shape[1], "block": block, "factor_f32": block**-0.5}
    kernels.operate("rotate", record.ROTATE, len(x), threads, **fields)
    assert np.isnan(between_rows(out)).all()
    return guarded(out)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("block", [16, 32, 64, 128, 256, 512])
def test_rows_are_multiplied_by_the_matrix(kernels, block, in_place):
    x = np.random.default_rng(block).standard_normal((5, 3 * block), dtype=np.float32)
    want = twins.rotated(x, block)
    assert np.abs(rotate(kernels, x, block, in_place, threads=2) - want).max() < 1e-6 * np.sqrt(block)


def test_twice_is_as_before(kernels):
    x = np.random.default_rng(0).standard_normal((3, 64), dtype=np.float32)
    assert np.abs(rotate(kernels, rotate(kernels, x, 32), 32) - x).max() < 1e-6


def test_one_large_number_is_spread_over_all(kernels):
    x = np.zeros((1, 64), np.float32)
    x[0, 5] = 8
    assert (np.abs(rotate(kernels, x, 64)) == 1).all()
