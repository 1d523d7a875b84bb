"""Blocks to the float32 they stand for, for every computable type, in plain numpy: what kernels are tested against.

Each type has its layout (`b` = bits per weight) and a function of blocks [n] to float32 [n, elements].  All steps are
float32 in the order of ggml's `dequantize_row_*`, so the results are equal to ggml's bit for bit."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from edgeinfer.errors import FormatError, RequestError, UnsupportedError
from edgeinfer.formats.ggml import GgmlType

_Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
_CHUNK = 1 << 16  # elements unpacked at a time: temporaries stay below a few MB and in cache


def dequantize(blocks: np.ndarray, ggml_type: int | str) -> np.ndarray:
    """A new float32 [..., elements] of `blocks` uint8 [..., bytes]; `ggml_type` is an id or a name.

    FormatError if the bytes are not whole blocks, UnsupportedError for a type that is not computable."""
    kind = _kind(ggml_type)
    layout, unpack = _UNPACK[kind]
    blocks = np.asarray(blocks)
    if blocks.dtype != np.uint8 or blocks.ndim == 0:
        raise RequestError(f"blocks must be uint8 [..., bytes], not {blocks.dtype} with {blocks.ndim} dimensions")
    *lead, size = blocks.shape
    if size % kind.bytes:
        raise FormatError(f"rows of {size} bytes are not whole {kind.name} blocks of {kind.bytes} bytes")
    count = blocks.size // kind.bytes
    rows = np.ascontiguousarray(blocks).reshape(count, kind.bytes).view(layout)[:, 0]  # layout[count]
    out = np.empty((count, kind.block), np.float32)
    step = _CHUNK // kind.block
    with np.errstate(invalid="ignore", over="ignore"):  # infinite and NaN scales are the file's own
        for start in range(0, count, step):
            out[start : start + step] = unpack(rows[start : start + step])
    return out.reshape(*lead, size // kind.bytes * kind.block)


def _kind(ggml_type: int | str) -> GgmlType:
    if isinstance(ggml_type, str):
        if ggml_type not in GgmlType.__members__:
            raise FormatError(f"unknown ggml type {ggml_type!r}")
        kind = GgmlType[ggml_type]
    else:
        kind = GgmlType.of(ggml_type)
    if not kind.computable:
        raise UnsupportedError(f"the blocks are {kind.not_computable}")
    return kind


def _f32(field: np.ndarray) -> _Floats:
    """float32 [n, 1] of a field with one number a block."""
    return field.astype(np.float32)[:, None]


def _nibbles(qs: np.ndarray, group: int) -> np.ndarray:
    """uint8 [n, 2 * bytes]: of each `group` bytes all the low nibbles, then all the high ones."""
    part = qs.reshape(len(qs), -1, 1, group)
    return (part >> _SHIFT_4 & 15).reshape(len(qs), -1)


def _five_bits(blocks: np.ndarray) -> _Floats:
    """float32 [n, 32], 0 to 31: the quants of Q5_0 and Q5_1."""
    q: np.ndarray = _nibbles(blocks["qs"], 16) | np.unpackbits(blocks["qh"], axis=1, bitorder="little") << 4
    return q.astype(np.float32)


def _scaled(scale: np.ndarray, q: np.ndarray) -> _Floats:
    """float32 [n, groups, elements of a group]: scale [n, groups] * q [n, elements]."""
    return scale[:, :, None] * q.reshape(*scale.shape, -1).astype(np.float32)


_SHIFT_4 = np.array([0, 4], np.uint8)[:, None]
_SHIFT_2 = np.array([0, 2, 4, 6], np.uint8)[:, None]

_F32 = np.dtype("<f4")
_F16 = np.dtype("<f2")
_BF16 = np.dtype("<u2")  # the upper half of a float32


def _plain(blocks: np.ndarray) -> _Floats:
    return _f32(blocks)


def _bf16(blocks: np.ndarray) -> _Floats:
    bits = blocks.astype(np.uint32) << 16
    return bits.view(np.float32)[:, None]


# Q4_0, 4.5 b: w = d * (q - 8).  qs[j] = q[j] | q[j + 16] << 4
_Q4_0 = np.dtype([("d", "<f2"), ("qs", "u1", 16)])


def _q4_0(blocks: np.ndarray) -> _Floats:
    return _f32(blocks["d"]) * (_nibbles(blocks["qs"], 16).astype(np.float32) - 8)


# Q4_1, 5 b: w = d * q + m.  qs as in Q4_0
_Q4_1 = np.dtype([("d", "<f2"), ("m", "<f2"), ("qs", "u1", 16)])


def _q4_1(blocks: np.ndarray) -> _Floats:
    return _f32(blocks["d"]) * _nibbles(blocks["qs"], 16).astype(np.float32) + _f32(blocks["m"])


# Q5_0, 5.5 b: w = d * (q - 16).  The low four bits of q as in Q4_0, bit j of qh is the fifth of q[j]
_Q5_0 = np.dtype([("d", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)])


def _q5_0(blocks: np.ndarray) -> _Floats:
    return _f32(blocks["d"]) * (_five_bits(blocks) - 16)


# Q5_1, 6 b: w = d * q + m.  q as in Q5_0
_Q5_1 = np.dtype([("d", "<f2"), ("m", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)])


def _q5_1(blocks: np.ndarray) -> _Floats:
    return _f32(blocks["d"]) * _five_bits(blocks) + _f32(blocks["m"])


# Q8_0, 8.5 b: w = d * q
_Q8_0 = np.dtype([("d", "<f2"), ("qs", "i1", 32)])


def _q8_0(blocks: np.ndarray) -> _Floats:
    return _f32(blocks["d"]) * blocks["qs"].astype(np.float32)


# Q2_K, 2.625 b: 16 groups of 16 weights, w = d * sc * q - dmin * mn.
#   scales[g] = sc[g] | mn[g] << 4
#   qs[32 * h + j], for each half h of 128 weights: bits 0-1 weight j, 2-3 j + 32, 4-5 j + 64, 6-7 j + 96
_Q2_K = np.dtype([("scales", "u1", 16), ("qs", "u1", 64), ("d", "<f2"), ("dmin", "<f2")])


def _q2_k(blocks: np.ndarray) -> _Floats:
    q = blocks["qs"].reshape(-1, 2, 1, 32) >> _SHIFT_2 & 3  # [n, half, shift, 32]
    scale = _f32(blocks["d"]) * (blocks["scales"] & 15).astype(np.float32)
    low = _f32(blocks["dmin"]) * (blocks["scales"] >> 4).astype(np.float32)
    return (_scaled(scale, q) - low[:, :, None]).reshape(-1, 256)


# Q3_K, 3.4375 b: 16 groups of 16 weights, w = d * (sc - 32) * (q - 4).
#   The low two bits of q as in Q2_K; bit k of hmask[j] is the third of weight 32 * k + j
#   scales[12]: byte g holds the low nibble of sc[g] and, above it, of sc[g + 8], g in 0..7;
#               bits 2k, 2k + 1 of byte 8 + i are the upper two of sc[4 * k + i]
_Q3_K = np.dtype([("hmask", "u1", 32), ("qs", "u1", 64), ("scales", "u1", 12), ("d", "<f2")])


def _q3_k(blocks: np.ndarray) -> _Floats:
    low = (blocks["qs"].reshape(-1, 2, 1, 32) >> _SHIFT_2 & 3).reshape(-1, 8, 32)
    high = blocks["hmask"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    q = (low | high << 2).astype(np.float32) - 4
    packed = blocks["scales"]
    upper = (packed[:, None, 8:] >> _SHIFT_2 & 3).reshape(-1, 16)
    sc = (_nibbles(packed[:, :8], 8) | upper << 4).astype(np.float32) - 32
    return _scaled(_f32(blocks["d"]) * sc, q).reshape(-1, 256)


def _scales_k(packed: np.ndarray) -> tuple[_Floats, _Floats]:
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


def _q4_k(blocks: np.ndarray) -> _Floats:
    sc, mn = _scales_k(blocks["scales"])
    low = _f32(blocks["dmin"]) * mn
    return (_scaled(_f32(blocks["d"]) * sc, _nibbles(blocks["qs"], 32)) - low[:, :, None]).reshape(-1, 256)


# Q5_K, 5.5 b: as Q4_K, and bit g of qh[j] is the fifth of weight j of group g
_Q5_K = np.dtype([("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("qh", "u1", 32), ("qs", "u1", 128)])


def _q5_k(blocks: np.ndarray) -> _Floats:
    sc, mn = _scales_k(blocks["scales"])
    low = _f32(blocks["dmin"]) * mn
    high = blocks["qh"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1  # [n, group, 32]
    q = _nibbles(blocks["qs"], 32) | high.reshape(-1, 256) << 4
    return (_scaled(_f32(blocks["d"]) * sc, q) - low[:, :, None]).reshape(-1, 256)


# Q6_K, 6.5625 b: 16 groups of 16 weights, w = d * sc * (q - 32).  For each half h of 128 weights:
#   ql[64 * h + j], j in 0..63: low nibble of weights j (bits 0-3) and j + 64 (bits 4-7)
#   qh[32 * h + j], j in 0..31: upper two bits of weights j (bits 0-1), j + 32 (2-3), j + 64 (4-5), j + 96 (6-7)
_Q6_K = np.dtype([("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), ("d", "<f2")])


def _q6_k(blocks: np.ndarray) -> _Floats:
    high = (blocks["qh"].reshape(-1, 2, 1, 32) >> _SHIFT_2 & 3).reshape(-1, 256)
    q = (_nibbles(blocks["ql"], 64) | high << 4).astype(np.float32) - 32
    return _scaled(_f32(blocks["d"]) * blocks["scales"].astype(np.float32), q).reshape(-1, 256)


_UNPACK: dict[GgmlType, tuple[np.dtype, Callable[[np.ndarray], _Floats]]] = {
    GgmlType.F32: (_F32, _plain),
    GgmlType.F16: (_F16, _plain),
    GgmlType.BF16: (_BF16, _bf16),
    GgmlType.Q4_0: (_Q4_0, _q4_0),
    GgmlType.Q4_1: (_Q4_1, _q4_1),
    GgmlType.Q5_0: (_Q5_0, _q5_0),
    GgmlType.Q5_1: (_Q5_1, _q5_1),
    GgmlType.Q8_0: (_Q8_0, _q8_0),
    GgmlType.Q2_K: (_Q2_K, _q2_k),
    GgmlType.Q3_K: (_Q3_K, _q3_k),
    GgmlType.Q4_K: (_Q4_K, _q4_k),
    GgmlType.Q5_K: (_Q5_K, _q5_k),
    GgmlType.Q6_K: (_Q6_K, _q6_k),
}
