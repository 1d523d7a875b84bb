"""Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 worked out by hand."""

import numpy as np

from tests.formats.by_hand import COUNT_UP_AND_DOWN, check, f16


def test_q4_0():
    check("Q4_0", f16(0.5) + COUNT_UP_AND_DOWN, [0.5 * (q - 8) for q in [*range(16), *range(15, -1, -1)]])


def test_q4_1():
    check("Q4_1", f16(0.5, -3) + COUNT_UP_AND_DOWN, [0.5 * q - 3 for q in [*range(16), *range(15, -1, -1)]])


HIGH_BITS = bytes.fromhex("0100 ff7f")  # fifth bits: of weight 0, and of weights 16 to 30
FIVE_BITS = [16, *range(1, 16), *range(31, 16, -1), 0]


def test_q5_0():
    check("Q5_0", f16(0.5) + HIGH_BITS + COUNT_UP_AND_DOWN, [0.5 * (q - 16) for q in FIVE_BITS])


def test_q5_1():
    check("Q5_1", f16(0.5, -3) + HIGH_BITS + COUNT_UP_AND_DOWN, [0.5 * q - 3 for q in FIVE_BITS])


def test_q8_0():
    q = [-128, 127, *range(-15, 15)]
    check("Q8_0", f16(0.25) + np.array(q, np.int8).tobytes(), [0.25 * x for x in q])
