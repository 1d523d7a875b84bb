"""Rounding to 16 bits, against numpy's float16 and a plain twin for bfloat16."""

import struct

import numpy as np

from edgeinfer.formats.floats import narrowed, widened
from edgeinfer.formats.ggml import GgmlType


def nearest_bfloat16(x):
    """The even one of the two nearest, by exact distances."""
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    low, high = bits & 0xFFFF0000, (bits & 0xFFFF0000) + 0x10000
    below, above = (struct.unpack("<f", struct.pack("<I", b))[0] for b in (low, high))
    if abs(x - below) != abs(above - x):
        return (low if abs(x - below) < abs(above - x) else high) >> 16
    return (low if low >> 16 & 1 == 0 else high) >> 16


def test_bfloat16_rounds_to_the_nearest_ties_to_even():
    rng = np.random.RandomState(0)
    x = np.concatenate([rng.standard_normal(500), [1 + 2**-8, 1 + 3 * 2**-8, 0.0, -0.0, 1e-40]]).astype(np.float32)
    assert narrowed(x, GgmlType.BF16).tolist() == [nearest_bfloat16(float(number)) for number in x]


def test_what_is_not_finite_stays_so():
    x = np.array([np.inf, -np.inf, np.nan, 3.4e38], np.float32)
    back = widened(narrowed(x, GgmlType.BF16))
    assert back[0] == np.inf and back[1] == -np.inf and np.isnan(back[2])
    bits = np.array([0x7F800001], np.uint32)
    assert np.isnan(widened(narrowed(bits.view(np.float32), GgmlType.BF16))).all()


def test_every_bfloat16_comes_back():
    bits = np.arange(1 << 16, dtype=np.uint16)
    numbers = widened(bits)
    sure = ~np.isnan(numbers)
    assert np.array_equal(narrowed(numbers, GgmlType.BF16)[sure], bits[sure])


def test_float16_is_numpys():
    x = np.array([1e-7, 65504, 7e4, -1.5], np.float32)
    with np.errstate(over="ignore"):
        assert np.array_equal(narrowed(x, GgmlType.F16), x.astype(np.float16))
    assert widened(np.array([0.5], "<f8")).dtype == np.float32
