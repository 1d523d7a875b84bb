"""Floating-point numbers in the types that models are stored in; numpy lacks bfloat16, uint16 stands for its bits."""

import numpy as np

from edgeinfer.formats.ggml import GgmlType

STORED: dict[np.dtype, GgmlType] = {
    np.dtype("<f4"): GgmlType.F32,
    np.dtype("<f2"): GgmlType.F16,
    np.dtype("<u2"): GgmlType.BF16,
    np.dtype("<f8"): GgmlType.F64,
}
DTYPES = {kind: dtype for dtype, kind in STORED.items()}


def widened(x: np.ndarray) -> np.ndarray:
    """The numbers of `x`, of one of the dtypes above, as float32; a view where they are that."""
    if x.dtype == np.uint16:
        bits = x.astype(np.uint32)
        bits <<= 16
        return bits.view(np.float32)
    return x.astype(np.float32, copy=False)


def narrowed(x: np.ndarray, kind: GgmlType) -> np.ndarray:
    """float32 `x` rounded to `kind`, ties to even; a float16 that it overflows becomes infinite."""
    if kind != GgmlType.BF16:
        with np.errstate(over="ignore"):
            return x.astype(DTYPES[kind], copy=False)
    bits = np.ascontiguousarray(x).view(np.uint32)
    rounded = ((bits + (0x7FFF + (bits >> 16 & 1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), (bits >> 16 | 0x40).astype(np.uint16), rounded)
