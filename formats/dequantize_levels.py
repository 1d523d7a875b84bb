"""Four bits that choose one of 16 levels: IQ4_NL, IQ4_XS, MXFP4, NVFP4.

Source of the layouts: block_iq4_nl and its neighbours in ggml."""

import numpy as np

from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.grids import FP4_LEVELS, IQ4_LEVELS
from edgeinfer.formats.unpacking import Floats, Unpack, f32, nibbles, scaled

_IQ4: Floats = np.array(IQ4_LEVELS, np.float32)
_FP4: Floats = np.array(FP4_LEVELS, np.float32)

# IQ4_NL, 4.5 b: w = d * level[q].  qs[j] = q[j] | q[j + 16] << 4
_IQ4_NL = np.dtype([("d", "<f2"), ("qs", "u1", 16)])


def _iq4_nl(blocks: np.ndarray) -> Floats:
    weights: Floats = f32(blocks["d"]) * _IQ4[nibbles(blocks["qs"], 16)]
    return weights


# IQ4_XS, 4.25 b: 8 groups of 32 weights, w = d * (sc - 32) * level[q].
#   Bit pair g of scales_h is the upper two bits of sc[g], nibble g of scales_l its lower four
#   qs[16 * g + j] = q[32 * g + j] | q[32 * g + j + 16] << 4
_IQ4_XS = np.dtype([("d", "<f2"), ("scales_h", "u1", 2), ("scales_l", "u1", 4), ("qs", "u1", 128)])


def _iq4_xs(blocks: np.ndarray) -> Floats:
    high = (blocks["scales_h"][:, :, None] >> np.array([0, 2, 4, 6], np.uint8) & 3).reshape(-1, 8)
    sc = (nibbles(blocks["scales_l"], 1) | high << 4).astype(np.float32) - 32
    return scaled(f32(blocks["d"]) * sc, _IQ4[nibbles(blocks["qs"], 16)]).reshape(-1, 256)


# MXFP4, 4.25 b: w = 2 ** (e - 128) * level[q]; e is a power plus 127 (E8M0), levels are doubled.  qs as in IQ4_NL
# https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf
_MXFP4 = np.dtype([("e", "u1"), ("qs", "u1", 16)])


def _mxfp4(blocks: np.ndarray) -> Floats:
    scale = np.ldexp(np.float32(1), blocks["e"].astype(np.int32) - 128)
    weights: Floats = f32(scale) * _FP4[nibbles(blocks["qs"], 16)]
    return weights


# NVFP4, 4.5 b: 4 groups of 16 weights, w = d[g] / 2 * level[q]; d are floats of 4 + 3 bits (UE4M3), levels are doubled.
#   qs[8 * g + j] = q[16 * g + j] | q[16 * g + j + 8] << 4
_NVFP4 = np.dtype([("d", "u1", 4), ("qs", "u1", 32)])


def _half_ue4m3(x: np.ndarray) -> Floats:
    """Half of what the bytes stand for; 0x7F is not a number in E4M3 and zero in ggml."""
    exponent = (x >> 3 & 15).astype(np.int32)
    mantissa = (x & 7 | (exponent > 0) << 3).astype(np.float32)
    halved: Floats = np.ldexp(mantissa, np.maximum(exponent, 1) - 11)
    return np.where(x == 0x7F, np.float32(0), halved)


def _nvfp4(blocks: np.ndarray) -> Floats:
    return scaled(_half_ue4m3(blocks["d"]), _FP4[nibbles(blocks["qs"], 8)]).reshape(-1, 64)


UNPACK: Unpack = {
    GgmlType.IQ4_NL: (_IQ4_NL, _iq4_nl),
    GgmlType.IQ4_XS: (_IQ4_XS, _iq4_xs),
    GgmlType.MXFP4: (_MXFP4, _mxfp4),
    GgmlType.NVFP4: (_NVFP4, _nvfp4),
}
