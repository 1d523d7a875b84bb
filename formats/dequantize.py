"""Blocks to the float32 they stand for, for every computable type, in plain numpy: what kernels are tested against."""

import numpy as np

from edgeinfer.errors import FormatError, RequestError, UnsupportedError
from edgeinfer.formats import (
    dequantize_grids,
    dequantize_k_quants,
    dequantize_legacy,
    dequantize_levels,
    dequantize_low_bits,
)
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.unpacking import Floats, Unpack, f32

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


def _bf16(blocks: np.ndarray) -> Floats:
    """The upper half of a float32."""
    bits = blocks.astype(np.uint32) << 16
    return bits.view(np.float32)[:, None]


_UNPACK: Unpack = {
    GgmlType.F64: (np.dtype("<f8"), f32),
    GgmlType.F32: (np.dtype("<f4"), f32),
    GgmlType.F16: (np.dtype("<f2"), f32),
    GgmlType.BF16: (np.dtype("<u2"), _bf16),
    **dequantize_legacy.UNPACK,
    **dequantize_k_quants.UNPACK,
    **dequantize_low_bits.UNPACK,
    **dequantize_levels.UNPACK,
    **dequantize_grids.UNPACK,
}
