"""IQ1_S to IQ3_S worked out by hand: a few entries of each grid, every field of the blocks."""

import numpy as np

from tests.formats.by_hand import check, f16

IQ2 = {0: [8] * 8, 1: [43] + [8] * 7, 2: [25, 25] + [8] * 6}  # the first entries of all three grids
IQ2_XS = IQ2 | {257: [25, 43, 8, 8, 8, 8, 8, 25]}
IQ2_S = IQ2 | {257: [8, 43, 25, 25, 25, 8, 25, 8], 513: [25, 8, 8, 25, 25, 8, 8, 25], 700: [8, 8, 8, 43, 43, 8, 25, 25]}
IQ3_XXS = {0: [4] * 4, 1: [20, 4, 4, 4], 2: [36, 4, 4, 4]}
IQ3_S = {0: [1] * 4, 1: [3, 1, 1, 1], 2: [5, 1, 1, 1], 257: [5, 7, 9, 5], 300: [3, 5, 3, 7]}
IQ1 = {1: [1] + [-1] * 7, 257: [1, 0, 1, 0, 1, -1, 0, -1], 1030: [1] + [0] * 7, 2047: [1] * 8}
SIGNS = [0b0000000, 0b0000001, 0b1010101, 0b1111111]  # with the eighth that makes them even:
EIGHT = [0b00000000, 0b10000001, 0b01010101, 0b11111111]


def signed(entry, byte):
    return [-w if byte >> i & 1 else w for i, w in enumerate(entry)]


def numbers(dtype, values):
    return np.array(values, dtype).tobytes()


def test_iq2_xxs():
    block, want = f16(0.5), []
    for scale in (0, 1, 2, 3, 15, 14, 7, 8):
        word = sum(signs << 7 * k for k, signs in enumerate(SIGNS)) | scale << 28
        block += bytes([1, 0, 2, 1]) + numbers("<u4", [word])
        for index, byte in zip([1, 0, 2, 1], EIGHT, strict=True):
            want += [0.125 * (scale + 0.5) * w for w in signed(IQ2[index], byte)]
    check("IQ2_XXS", block, want)


def test_iq2_xs():
    index = [1, 257, 2, 0] * 8
    scales = [3, 0, 15, 7, 8, 1, 2, 4, 5, 6, 9, 10, 11, 12, 13, 14]
    words = [i | SIGNS[k % 4] << 9 for k, i in enumerate(index)]
    packed = bytes(scales[2 * k] | scales[2 * k + 1] << 4 for k in range(8))
    want = [0.125 * (scales[k // 2] + 0.5) * w for k, i in enumerate(index) for w in signed(IQ2_XS[i], EIGHT[k % 4])]
    check("IQ2_XS", f16(0.5) + numbers("<u2", words) + packed, want)


def test_iq2_s():
    index = [257, 513, 700, 1] * 4 + [2, 700, 0, 513] * 4
    scales = list(range(16))
    signs = bytes(range(7, 39))
    high = bytes(sum((index[4 * k + j] >> 8) << 2 * j for j in range(4)) for k in range(8))
    packed = bytes(scales[2 * k] | scales[2 * k + 1] << 4 for k in range(8))
    want = [0.125 * (scales[k // 2] + 0.5) * w for k, i in enumerate(index) for w in signed(IQ2_S[i], signs[k])]
    check("IQ2_S", f16(0.5) + bytes(i & 255 for i in index) + signs + high + packed, want)


def test_iq3_xxs():
    index = [0, 1, 2, 2, 1, 0, 1, 1] * 8
    scales = [0, 15, 2, 3, 4, 9, 7, 8]
    words = [sum(signs << 7 * k for k, signs in enumerate(SIGNS)) | scale << 28 for scale in scales]
    want = []
    for k in range(32):
        entry = IQ3_XXS[index[2 * k]] + IQ3_XXS[index[2 * k + 1]]
        want += [0.25 * (scales[k // 4] + 0.5) * w for w in signed(entry, EIGHT[k % 4])]
    check("IQ3_XXS", f16(0.5) + bytes(index) + numbers("<u4", words), want)


def test_iq3_s():
    index = [257, 1, 300, 2, 0, 300, 257, 257] * 8
    scales = [0, 15, 2, 3, 4, 9, 7, 8]
    signs = bytes(range(100, 132))
    high = bytes(sum((index[8 * k + j] >> 8) << j for j in range(8)) for k in range(8))
    packed = bytes(scales[2 * k] | scales[2 * k + 1] << 4 for k in range(4))
    want = []
    for k in range(32):
        entry = IQ3_S[index[2 * k]] + IQ3_S[index[2 * k + 1]]
        want += [0.5 * (2 * scales[k // 4] + 1) * w for w in signed(entry, signs[k])]
    check("IQ3_S", f16(0.5) + bytes(i & 255 for i in index) + high + signs + packed, want)


def test_iq1_s():
    index = [1, 257, 1030, 2047] * 8
    scales, negative = [0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 1, 0, 1, 0, 0, 1]
    words, want = [], []
    for g, scale in enumerate(scales):
        four = index[4 * g : 4 * g + 4]
        words.append(sum((i >> 8) << 3 * k for k, i in enumerate(four)) | scale << 12 | negative[g] << 15)
        delta = -0.125 if negative[g] else 0.125
        want += [0.5 * (2 * scale + 1) * (w + delta) for i in four for w in IQ1[i]]
    check("IQ1_S", f16(0.5) + bytes(i & 255 for i in index) + numbers("<u2", words), want)


def test_iq1_m():
    index = [1, 257, 1030, 2047] * 4 + [2047, 1, 257, 1030] * 4
    negative = [k % 3 == 0 for k in range(32)]
    scales = [0, 1, 2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1, 0]
    nibbles = [i >> 8 | 8 * n for i, n in zip(index, negative, strict=True)]
    high = bytes(nibbles[2 * k] | nibbles[2 * k + 1] << 4 for k in range(16))
    d = 0x3A98  # a half float with four different digits
    words = [sum(scales[4 * i + j] << 3 * j for j in range(4)) | (d >> 4 * i & 15) << 12 for i in range(4)]
    size = float(np.uint16(d).view(np.float16))
    want = []
    for k, i in enumerate(index):
        delta = -0.125 if negative[k] else 0.125
        want += [size * (2 * scales[k // 2] + 1) * (w + delta) for w in IQ1[i]]
    check("IQ1_M", bytes(i & 255 for i in index) + high + numbers("<u2", words), want)
