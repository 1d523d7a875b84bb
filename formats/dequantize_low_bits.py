"""One scale a block and one or two bits a weight: Q1_0, Q2_0, TQ1_0, TQ2_0.

Source of the layouts: block_q1_0 and its neighbours in ggml."""

import numpy as np

from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.unpacking import Floats, Unpack, f32, pairs

# Q1_0, 1.125 b: w = d where bit i % 8 of qs[i / 8] is set, else -d
_Q1_0 = np.dtype([("d", "<f2"), ("qs", "u1", 16)])


def _q1_0(blocks: np.ndarray) -> Floats:
    positive = np.unpackbits(blocks["qs"], axis=1, bitorder="little").astype(bool)
    return np.where(positive, f32(blocks["d"]), -f32(blocks["d"]))


# Q2_0, 2.25 b: w = d * (q - 1).  Bit pair p of qs[j] is q[4 * j + p]
_Q2_0 = np.dtype([("d", "<f2"), ("qs", "u1", 16)])


def _q2_0(blocks: np.ndarray) -> Floats:
    return f32(blocks["d"]) * (pairs(blocks["qs"], 1).astype(np.float32) - 1)


# TQ2_0, 2.0625 b: w = d * (q - 1).  Bit pair p of qs[32 * h + j], h being 0 or 1, is q[128 * h + 32 * p + j]
_TQ2_0 = np.dtype([("qs", "u1", 64), ("d", "<f2")])


def _tq2_0(blocks: np.ndarray) -> Floats:
    return f32(blocks["d"]) * (pairs(blocks["qs"], 32).astype(np.float32) - 1)


# TQ1_0, 1.6875 b: w = d * (q - 1).  A byte is a fraction of 256 whose first digits in base 3 are weights:
#   digit p of byte j of the first 32 is q[32 * p + j], of the next 16 q[160 + 16 * p + j], of qh q[240 + 4 * p + j]
_TQ1_0 = np.dtype([("first", "u1", 32), ("next", "u1", 16), ("qh", "u1", 4), ("d", "<f2")])


def _digits(fractions: np.ndarray, count: int) -> np.ndarray:
    """uint16[n, count * bytes], 0 to 2: the first digits of all bytes, then the second ones, ..."""
    rest = fractions[:, None, :] * np.array([1, 3, 9, 27, 81][:count], np.uint8)[:, None]  # whole ones go
    return (rest.astype(np.uint16) * 3 >> 8).reshape(len(fractions), -1)


def _tq1_0(blocks: np.ndarray) -> Floats:
    digits = [_digits(blocks["first"], 5), _digits(blocks["next"], 5), _digits(blocks["qh"], 4)]
    return f32(blocks["d"]) * (np.concatenate(digits, axis=1).astype(np.float32) - 1)


UNPACK: Unpack = {
    GgmlType.Q1_0: (_Q1_0, _q1_0),
    GgmlType.Q2_0: (_Q2_0, _q2_0),
    GgmlType.TQ1_0: (_TQ1_0, _tq1_0),
    GgmlType.TQ2_0: (_TQ2_0, _tq2_0),
}
