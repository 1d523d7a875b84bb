"""Blocks written by hand, against the floats they stand for."""

import numpy as np

from edgeinfer.formats import dequantize

COUNT_UP_AND_DOWN = bytes(low | (15 - low) << 4 for low in range(16))  # low nibbles 0..15, high nibbles 15..0
TWO_BITS = bytes([0b11_10_01_00])  # 0, 1, 2, 3 from the lowest bits up


def f16(*numbers):
    return np.array(numbers, "<f2").tobytes()


def check(kind, block, want):
    got = dequantize(np.frombuffer(block, np.uint8), kind)
    assert got.dtype == np.float32 and got.tolist() == want
