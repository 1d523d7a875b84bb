"""F32, F16 and BF16: conversion exactly, products against numpy, over any number of columns."""

import numpy as np
import pytest

from edgeinfer.formats import dequantize
from tests.blocks import FLOATS, random_rows
from tests.simd_kernels.harness import guarded

COLS = (1, 2, 15, 16, 17, 31, 32, 33, 63, 100, 576)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("cols", COLS)
def test_unpack_is_dequantize(kernels, kind, cols):
    row = random_rows(np.random.default_rng(cols), kind, 1, cols)
    out = guarded(np.full(cols, np.nan, np.float32))
    kernels.call(f"unpack.{kind}", guarded(row), cols, out, 0, 0)
    assert (out == dequantize(row, kind)[0]).all()


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_every_number_unpacks(kernels, kind):
    row = np.arange(65536).astype(np.uint16).view(np.uint8)[None]
    out = np.zeros(65536, np.float32)
    kernels.call(f"unpack.{kind}", row, 65536, out, 0, 0)
    np.testing.assert_array_equal(out, dequantize(row, kind)[0])


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("cols", COLS)
@pytest.mark.parametrize("rows", [1, 3])
def test_dot(kernels, kind, cols, rows):
    rng = np.random.default_rng(cols)
    w, x = random_rows(rng, kind, rows, cols), rng.standard_normal(cols, dtype=np.float32)
    out = guarded(np.full(rows, np.nan, np.float32))
    kernels.call(f"dot.{kind}", guarded(w), w.shape[1], rows, guarded(x), cols, out)
    terms = dequantize(w, kind).astype(np.float64) * x
    assert (np.abs(out - terms.sum(axis=1)) <= 2e-6 * np.abs(terms).sum(axis=1)).all()


def test_dot_of_what_is_not_finite(kernels):
    w, out = np.ones((3, 40), np.float32), np.zeros(3, np.float32)
    w[0, 39], w[1, 3], w[2, 0] = np.nan, np.inf, -np.inf
    kernels.call("dot.F32", w, 160, 3, np.ones(40, np.float32), 40, out)
    assert np.isnan(out[0]) and out[1:].tolist() == [np.inf, -np.inf]
