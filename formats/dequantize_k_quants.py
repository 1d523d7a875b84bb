"""Blocks of 256 weights with scales that are themselves quantised: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K.

Source of the layouts: block_q2_K and its neighbours in ggml."""

import numpy as np

from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.unpacking import Floats, Unpack, f32, nibbles, pairs, scaled

# Q2_K, 2.625 b: 16 groups of 16 weights, w = d * sc * q - dmin * mn.
#   scales[g] = sc[g] | mn[g] << 4
#   qs[32 * h + j], for each half h of 128 weights: bits 0-1 weight j, 2-3 j + 32, 4-5 j + 64, 6-7 j + 96
_Q2_K = np.dtype([("scales", "u1", 16), ("qs", "u1", 64), ("d", "<f2"), ("dmin", "<f2")])


def _q2_k(blocks: np.ndarray) -> Floats:
    q = pairs(blocks["qs"], 32)
    scale = f32(blocks["d"]) * (blocks["scales"] & 15).astype(np.float32)
    low = f32(blocks["dmin"]) * (blocks["scales"] >> 4).astype(np.float32)
    return (scaled(scale, q) - low[:, :, None]).reshape(-1, 256)


# Q3_K, 3.4375 b: 16 groups of 16 weights, w = d * (sc - 32) * (q - 4).
#   The low two bits of q as in Q2_K; bit k of hmask[j] is the third of weight 32 * k + j
#   scales[12]: byte g holds the low nibble of sc[g] and, above it, of sc[g + 8], g in 0..7;
#               bits 2k, 2k + 1 of byte 8 + i are the upper two of sc[4 * k + i]
_Q3_K = np.dtype([("hmask", "u1", 32), ("qs", "u1", 64), ("scales", "u1", 12), ("d", "<f2")])


def _q3_k(blocks: np.ndarray) -> Floats:
    low = pairs(blocks["qs"], 32).reshape(-1, 8, 32)
    high = blocks["hmask"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    q = (low | high << 2).astype(np.float32) - 4
    packed = blocks["scales"]
    upper = pairs(packed[:, 8:], 4)
    sc = (nibbles(packed[:, :8], 8) | upper << 4).astype(np.float32) - 32
    return scaled(f32(blocks["d"]) * sc, q).reshape(-1, 256)


def _scales_k(packed: np.ndarray) -> tuple[Floats, Floats]:
    """float32 [n, 8] scales and mins of six bits each from the 12 bytes of Q4_K and Q5_K.

    Bytes 0-3: sc[g] in bits 0-5, upper two bits of sc[g + 4] in bits 6-7.  Bytes 4-7: the same of mn.
    Bytes 8-11: low nibble of sc[g + 4], above it that of mn[g + 4].  g in 0..3."""
    sc, mn, mixed = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([sc & 63, mixed & 15 | sc >> 6 << 4], axis=1)
    mins = np.concatenate([mn & 63, mixed >> 4 | mn >> 6 << 4], axis=1)
    return scales.astype(np.float32), mins.astype(np.float32)


# Q4_K, 4.5 b: 8 groups of 32 weights, w = d * sc * q - dmin * mn.
#   qs[32 * p + j], for each pair p of groups: low nibble weight j of its first group, high nibble of its second
_Q4_K = np.dtype([("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("qs", "u1", 128)])


def _q4_k(blocks: np.ndarray) -> Floats:
    sc, mn = _scales_k(blocks["scales"])
    low = f32(blocks["dmin"]) * mn
    return (scaled(f32(blocks["d"]) * sc, nibbles(blocks["qs"], 32)) - low[:, :, None]).reshape(-1, 256)


# Q5_K, 5.5 b: as Q4_K, and bit g of qh[j] is the fifth of weight j of group g
_Q5_K = np.dtype([("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("qh", "u1", 32), ("qs", "u1", 128)])


def _q5_k(blocks: np.ndarray) -> Floats:
    sc, mn = _scales_k(blocks["scales"])
    low = f32(blocks["dmin"]) * mn
    high = blocks["qh"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1  # [n, group, 32]
    q = nibbles(blocks["qs"], 32) | high.reshape(-1, 256) << 4
    return (scaled(f32(blocks["d"]) * sc, q) - low[:, :, None]).reshape(-1, 256)


# Q6_K, 6.5625 b: 16 groups of 16 weights, w = d * sc * (q - 32).  For each half h of 128 weights:
#   ql[64 * h + j], j in 0..63: low nibble of weights j (bits 0-3) and j + 64 (bits 4-7)
#   qh[32 * h + j], j in 0..31: upper two bits of weights j (bits 0-1), j + 32 (2-3), j + 64 (4-5), j + 96 (6-7)
_Q6_K = np.dtype([("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), ("d", "<f2")])


def _q6_k(blocks: np.ndarray) -> Floats:
    high = pairs(blocks["qh"], 32)
    q = (nibbles(blocks["ql"], 64) | high << 4).astype(np.float32) - 32
    return scaled(f32(blocks["d"]) * blocks["scales"].astype(np.float32), q).reshape(-1, 256)


UNPACK: Unpack = {
    GgmlType.Q2_K: (_Q2_K, _q2_k),
    GgmlType.Q3_K: (_Q3_K, _q3_k),
    GgmlType.Q4_K: (_Q4_K, _q4_k),
    GgmlType.Q5_K: (_Q5_K, _q5_k),
    GgmlType.Q6_K: (_Q6_K, _q6_k),
}
