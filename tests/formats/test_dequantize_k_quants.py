"""Q2_K to Q6_K worked out by hand."""

import numpy as np

from tests.formats.by_hand import TWO_BITS, check, f16


def test_q2_k():
    scales = bytes(group | (15 - group) << 4 for group in range(16))
    want = [0.5 * group * (group // 2 % 4) - 0.25 * (15 - group) for group in range(16) for _ in range(16)]
    check("Q2_K", scales + TWO_BITS * 64 + f16(0.5, 0.25), want)


def test_q3_k():
    scales = [4 * group for group in range(16)]  # their upper two bits are group // 4
    packed = bytes(scales[i] & 15 | (scales[i + 8] & 15) << 4 for i in range(8)) + TWO_BITS * 4
    hmask = bytes([0b0101_0101]) * 32  # the third bit of every other 32 weights
    q = [low + 4 * (k % 2 == 0) - 4 for k, low in enumerate([0, 1, 2, 3] * 2)]  # of each 32 weights
    want = [0.5 * (scales[group] - 32) * q[group // 2] for group in range(16) for _ in range(16)]
    check("Q3_K", hmask + TWO_BITS * 64 + packed + f16(0.5), want)


SCALES_K = [1, 2, 3, 63, 16, 33, 50, 15]
MINS_K = [0, 5, 63, 1, 48, 17, 34, 7]
PACKED_K = bytes([1 | 1 << 6, 2 | 2 << 6, 3 | 3 << 6, 63, 3 << 6, 5 | 1 << 6, 63 | 2 << 6, 1, 0x00, 0x11, 0x22, 0x7F])
NIBBLES_K = bytes(pair | (pair + 8) << 4 for pair in range(4) for _ in range(32))
Q_K = [0, 8, 1, 9, 2, 10, 3, 11]  # of each 32 weights


def test_q4_k():
    want = [0.5 * SCALES_K[group] * Q_K[group] - 0.25 * MINS_K[group] for group in range(8) for _ in range(32)]
    check("Q4_K", f16(0.5, 0.25) + PACKED_K + NIBBLES_K, want)


def test_q5_k():
    high = bytes([0b1001_0110]) * 32
    q = [low + 16 * (group in (1, 2, 4, 7)) for group, low in enumerate(Q_K)]
    want = [0.5 * SCALES_K[group] * q[group] - 0.25 * MINS_K[group] for group in range(8) for _ in range(32)]
    check("Q5_K", f16(0.5, 0.25) + PACKED_K + high + NIBBLES_K, want)


def test_q6_k():
    scales = list(range(-8, 8))
    nibbles = bytes([0x3C]) * 128  # 12 in the first 64 weights of each half, 3 in the others
    q = [12, 12 + 16, 3 + 32, 3 + 48]  # of each 32 weights of a half
    want = [0.5 * scales[group] * (q[group // 2 % 4] - 32) for group in range(16) for _ in range(16)]
    check("Q6_K", nibbles + TWO_BITS * 64 + np.array(scales, np.int8).tobytes() + f16(0.5), want)
