"""Blocks of 32 weights with a scale, and a minimum if any: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

Source of the layouts: block_q4_0 and its neighbours in ggml."""

import numpy as np

from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.unpacking import Floats, Unpack, f32, nibbles


def _five_bits(blocks: np.ndarray) -> Floats:
    """float32 [n, 32], 0 to 31: the quants of Q5_0 and Q5_1."""
    q: np.ndarray = nibbles(blocks["qs"], 16) | np.unpackbits(blocks["qh"], axis=1, bitorder="little") << 4
    return q.astype(np.float32)


# Q4_0, 4.5 b: w = d * (q - 8).  qs[j] = q[j] | q[j + 16] << 4
_Q4_0 = np.dtype([("d", "<f2"), ("qs", "u1", 16)])


def _q4_0(blocks: np.ndarray) -> Floats:
    return f32(blocks["d"]) * (nibbles(blocks["qs"], 16).astype(np.float32) - 8)


# Q4_1, 5 b: w = d * q + m.  qs as in Q4_0
_Q4_1 = np.dtype([("d", "<f2"), ("m", "<f2"), ("qs", "u1", 16)])


def _q4_1(blocks: np.ndarray) -> Floats:
    return f32(blocks["d"]) * nibbles(blocks["qs"], 16).astype(np.float32) + f32(blocks["m"])


# Q5_0, 5.5 b: w = d * (q - 16).  The low four bits of q as in Q4_0, bit j of qh is the fifth of q[j]
_Q5_0 = np.dtype([("d", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)])


def _q5_0(blocks: np.ndarray) -> Floats:
    return f32(blocks["d"]) * (_five_bits(blocks) - 16)


# Q5_1, 6 b: w = d * q + m.  q as in Q5_0
_Q5_1 = np.dtype([("d", "<f2"), ("m", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)])


def _q5_1(blocks: np.ndarray) -> Floats:
    return f32(blocks["d"]) * _five_bits(blocks) + f32(blocks["m"])


# Q8_0, 8.5 b: w = d * q
_Q8_0 = np.dtype([("d", "<f2"), ("qs", "i1", 32)])


def _q8_0(blocks: np.ndarray) -> Floats:
    return f32(blocks["d"]) * blocks["qs"].astype(np.float32)


UNPACK: Unpack = {
    GgmlType.Q4_0: (_Q4_0, _q4_0),
    GgmlType.Q4_1: (_Q4_1, _q4_1),
    GgmlType.Q5_0: (_Q5_0, _q5_0),
    GgmlType.Q5_1: (_Q5_1, _q5_1),
    GgmlType.Q8_0: (_Q8_0, _q8_0),
}
