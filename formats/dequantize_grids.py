"""Indices of grids of 8 or 4 weights (grids.py): IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S.

All are blocks of 256 weights.  Source: block_iq2_xxs and its neighbours in ggml."""

import numpy as np

from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.grids import grid
from edgeinfer.formats.unpacking import Floats, Unpack, f32, nibbles, pairs, scaled


def _signed(scale: np.ndarray, points: np.ndarray, signs: np.ndarray) -> Floats:
    """float32[n, 256]: scale [n, groups] * points [n, entries, weights], negative where bits [n, 32] are set."""
    negative = np.unpackbits(signs.reshape(len(signs), 32), axis=1, bitorder="little").astype(bool)
    weights = scaled(scale, points).reshape(-1, 256)
    return np.where(negative, -weights, weights)


def _even(seven: np.ndarray) -> np.ndarray:
    """uint8 of signs in seven bits: the eighth makes the number of negative weights even."""
    odd = seven ^ seven >> 4
    odd = odd ^ odd >> 2
    odd = odd ^ odd >> 1
    eight: np.ndarray = seven | (odd & 1) << 7
    return eight.astype(np.uint8)


_SEVENS = np.array([0, 7, 14, 21], np.uint32)

# IQ2_XXS, 2.0625 b: 8 groups of 32 weights, w = d * (sc + 0.5) / 4 * grid.
#   Each group: four indices, then a word of the signs of four entries (7 bits each, lowest first) and sc (4 bits)
_IQ2_XXS = np.dtype([("d", "<f2"), ("groups", [("qs", "u1", 4), ("word", "<u4")], 8)])


def _iq2_xxs(blocks: np.ndarray) -> Floats:
    word = blocks["groups"]["word"]
    scale = f32(blocks["d"]) * ((word >> 28).astype(np.float32) + np.float32(0.5)) * np.float32(0.25)
    return _signed(scale, grid("IQ2_XXS")[blocks["groups"]["qs"]], _even(word[:, :, None] >> _SEVENS & 127))


# IQ2_XS, 2.3125 b: 16 groups of 16 weights, w = d * (sc + 0.5) / 4 * grid.
#   qs: index (9 bits), signs of the entry (7 bits); sc[2 * k] | sc[2 * k + 1] << 4 in scales[k]
_IQ2_XS = np.dtype([("d", "<f2"), ("qs", "<u2", 32), ("scales", "u1", 8)])


def _quarter_scales(blocks: np.ndarray) -> Floats:
    """float32[n, 16] of d and scales of IQ2_XS and IQ2_S."""
    return f32(blocks["d"]) * (nibbles(blocks["scales"], 1).astype(np.float32) + np.float32(0.5)) * np.float32(0.25)


def _iq2_xs(blocks: np.ndarray) -> Floats:
    return _signed(_quarter_scales(blocks), grid("IQ2_XS")[blocks["qs"] & 511], _even(blocks["qs"] >> 9))


# IQ2_S, 2.5625 b: as IQ2_XS.  Bit j of signs[k] is the sign of weight 8 * k + j.
#   Index: qs, and above it bit pair k % 4 of qh[k / 4]
_IQ2_S = np.dtype([("d", "<f2"), ("qs", "u1", 32), ("signs", "u1", 32), ("qh", "u1", 8), ("scales", "u1", 8)])


def _iq2_s(blocks: np.ndarray) -> Floats:
    index = blocks["qs"] | pairs(blocks["qh"], 1).astype(np.uint16) << 8
    return _signed(_quarter_scales(blocks), grid("IQ2_S")[index], blocks["signs"])


# IQ3_XXS, 3.0625 b: 8 groups of 32 weights, w = d * (sc + 0.5) / 2 * grid.
#   qs: indices of entries of four; words: signs of eight weights (7 bits each, lowest first) and sc (4 bits)
_IQ3_XXS = np.dtype([("d", "<f2"), ("qs", "u1", 64), ("words", "<u4", 8)])


def _iq3_xxs(blocks: np.ndarray) -> Floats:
    word = blocks["words"]
    scale = f32(blocks["d"]) * ((word >> 28).astype(np.float32) + np.float32(0.5)) * np.float32(0.5)
    return _signed(scale, grid("IQ3_XXS")[blocks["qs"]], _even(word[:, :, None] >> _SEVENS & 127))


# IQ3_S, 3.4375 b: 8 groups of 32 weights, w = d * (2 * sc + 1) * grid.
#   Index of an entry of four: qs, and above it bit k % 8 of qh[k / 8]; signs as in IQ2_S, scales as in IQ2_XS
_IQ3_S = np.dtype([("d", "<f2"), ("qs", "u1", 64), ("qh", "u1", 8), ("signs", "u1", 32), ("scales", "u1", 4)])


def _iq3_s(blocks: np.ndarray) -> Floats:
    index = blocks["qs"] | np.unpackbits(blocks["qh"], axis=1, bitorder="little").astype(np.uint16) << 8
    scale = f32(blocks["d"]) * (1 + 2 * nibbles(blocks["scales"], 1).astype(np.float32))
    return _signed(scale, grid("IQ3_S")[index], blocks["signs"])


_THREES = np.array([0, 3, 6, 9], np.uint16)
_DELTA = np.float32(0.125)

# IQ1_S, 1.5625 b: 8 groups of 32 weights, w = d * (2 * sc + 1) * (grid + delta), delta = 1/8 or -1/8.
#   qh[g]: upper three bits of the group's four indices (lowest first), sc (3 bits), the sign of delta
_IQ1_S = np.dtype([("d", "<f2"), ("qs", "u1", 32), ("qh", "<u2", 8)])


def _iq1_s(blocks: np.ndarray) -> Floats:
    qh = blocks["qh"]
    index = blocks["qs"] | ((qh[:, :, None] >> _THREES & 7) << 8).reshape(-1, 32)
    scale = f32(blocks["d"]) * (2 * (qh >> 12 & 7) + 1).astype(np.float32)
    points = grid("IQ1_S")[index].reshape(-1, 8, 32) + np.where(qh >> 15, -_DELTA, _DELTA)[:, :, None]
    return scaled(scale, points).reshape(-1, 256)


# IQ1_M, 1.75 b: 16 groups of 16 weights, w = d * (2 * sc + 1) * (grid + delta), delta = 1/8 or -1/8.
#   qh: nibble k is the upper three bits of index k and the sign of its delta
#   scales[i]: sc[4 * i] to sc[4 * i + 3] (3 bits each, lowest first), nibble i of d
_IQ1_M = np.dtype([("qs", "u1", 32), ("qh", "u1", 16), ("scales", "<u2", 4)])


def _iq1_m(blocks: np.ndarray) -> Floats:
    packed, qh = blocks["scales"], nibbles(blocks["qh"], 1)
    d = np.bitwise_or.reduce(packed >> 12 << np.array([0, 4, 8, 12], np.uint16), axis=1).view(np.float16)
    sc = (packed[:, :, None] >> _THREES & 7).reshape(-1, 16)
    index = blocks["qs"] | (qh & 7).astype(np.uint16) << 8
    points = grid("IQ1_M")[index] + np.where(qh & 8, -_DELTA, _DELTA)[:, :, None]
    return scaled(f32(d) * (2 * sc + 1).astype(np.float32), points).reshape(-1, 256)


UNPACK: Unpack = {
    GgmlType.IQ1_S: (_IQ1_S, _iq1_s),
    GgmlType.IQ1_M: (_IQ1_M, _iq1_m),
    GgmlType.IQ2_XXS: (_IQ2_XXS, _iq2_xxs),
    GgmlType.IQ2_XS: (_IQ2_XS, _iq2_xs),
    GgmlType.IQ2_S: (_IQ2_S, _iq2_s),
    GgmlType.IQ3_XXS: (_IQ3_XXS, _iq3_xxs),
    GgmlType.IQ3_S: (_IQ3_S, _iq3_s),
}
