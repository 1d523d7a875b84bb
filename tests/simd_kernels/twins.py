"""Numpy twins of what kernels round: 8-bit activations, and keys and values as the cache keeps them."""

import numpy as np

from edgeinfer.simd_kernels import layout
from edgeinfer.simd_kernels.cpu import Tier

F32 = np.float32


def quantise(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(codes i8[rows, width], scales f32[rows, width / 32]) of f32[rows, width]: scale = largest size / 127."""
    groups = x.reshape(len(x), -1, 32)
    top = np.abs(groups).max(axis=-1)
    with np.errstate(all="ignore"):
        inverse = np.where(top > 2.0**-120, F32(127) / top, F32(0)).astype(F32)
        codes = np.rint(groups * inverse[..., None]).astype(np.int8)
    return codes.reshape(x.shape), top * F32(1.0 / 127)


def rounded(x: np.ndarray) -> np.ndarray:
    """f32[rows, width] as 8-bit codes with a scale for each 32, or fewer at the end, have it."""
    codes, scales = quantise(np.pad(x, ((0, 0), (0, -x.shape[1] % 32))))
    return (codes * np.repeat(scales, 32, axis=1))[:, : x.shape[1]]


def finely_rounded(x: np.ndarray) -> np.ndarray:
    """f32[rows, width] as 16-bit activations have it: 256ths of a code are kept."""
    groups = x.reshape(len(x), -1, 32)
    top = np.abs(groups).max(axis=-1, keepdims=True)
    y = groups * np.where(top > 0, F32(127) / np.where(top > 0, top, F32(1)), F32(0))
    high = np.rint(y)
    low = np.clip(np.rint((y - high) * 256), -127, 127)
    return ((high * 256 + low) * (top * F32(1 / 127 / 256))).reshape(x.shape).astype(F32)


def sums(codes: np.ndarray, scales: np.ndarray, group: int) -> np.ndarray:
    """f32[rows, width / group] scale * sum of codes of each group."""
    exact = codes.reshape(len(codes), -1, group).sum(axis=-1, dtype=np.int32)
    with np.errstate(invalid="ignore"):
        return exact.astype(F32) * np.repeat(scales, 32 // group, axis=1)


def row(codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """uint8[bytes]: one row alone, i8[1, width], in the layout of `activation.quantise`."""
    parts = (codes, scales, sums(codes, scales, 32), sums(codes, scales, 16))
    return padded(np.concatenate([part.reshape(-1).view(np.uint8) for part in parts]), codes.shape[1])


def spans(codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """uint8[bytes]: a few rows in pairs, as `activation.quantise` lays them; codes past the end are -1."""
    rows, width = codes.shape
    count = -(-width // 256)
    columns = np.pad(codes, ((0, 0), (0, 256 * count - width)), constant_values=-1).reshape(rows, count, 8, 8, 4)
    numbers = []
    for part in (scales, sums(codes, scales, 32), sums(codes, scales, 16)):
        each = part.shape[1] * 32 // width  # of a group
        numbers.append(np.pad(part, ((0, 0), (0, 8 * each * count - part.shape[1]))).reshape(rows, count, 8, each))
    out = []
    for first in range(0, rows, layout.FEW):
        last = min(first + layout.FEW, rows)
        pairs = np.minimum(np.arange(first, layout.up(last, 2)), last - 1).reshape(-1, 2)
        parts = [
            columns[pairs].transpose(2, 0, 4, 1, 3, 5),
            *(part[pairs].transpose(2, 0, 4, 1, 3) for part in numbers),
        ]
        data = [np.ascontiguousarray(part).reshape(*part.shape[:2], -1).view(np.uint8) for part in parts]
        out.append(np.concatenate(data, axis=-1).reshape(-1))
    return np.concatenate(out)


def padded(data: np.ndarray, width: int, rows: int = 1) -> np.ndarray:
    out = np.full(rows * layout.activation_bytes(width), 255, np.uint8)
    out[: len(data)] = data
    return out


def raised(tier: Tier) -> int:
    """What is added to codes in tiles: x86 multiplies unsigned bytes by signed ones."""
    return 128 if tier.machine == "x86_64" else 0


def tiles(codes: np.ndarray, scales: np.ndarray, tier: Tier) -> np.ndarray:
    """uint8[tiles, n * stride]: several rows in the tier's tiles of n, codes raised; places of rows there are none of
    hold NaN."""
    n = tier.tile_tokens
    more = (scales, sums(codes, scales, 32), sums(codes, scales, 16))
    parts = ((codes.view(np.uint8) + np.uint8(raised(tier))).view(np.int8).reshape(len(codes), -1, 4), *more)
    out = []
    for first in range(0, len(codes), n):
        data = []
        for part in parts:
            lanes = part[first : first + n]
            full = np.full((n, *part.shape[1:]), -1 if part.dtype == np.int8 else np.nan, part.dtype)
            full[: len(lanes)] = lanes
            data.append(np.ascontiguousarray(full.swapaxes(0, 1)).reshape(-1).view(np.uint8))
        out.append(padded(np.concatenate(data), codes.shape[1], n))
    return np.stack(out)


def cached(x: np.ndarray, kv_type: str) -> np.ndarray:
    """f32[..., dim] as the cache gives it back; q8_0 has a half-float scale for 32 dims, or fewer at the end."""
    if kv_type == "f32":
        return x
    if kv_type == "f16":
        return x.astype(np.float16).astype(F32)
    out = np.empty_like(x)
    for start in range(0, x.shape[-1], 32):
        part = x[..., start : start + 32]
        scale = np.abs(part).max(axis=-1, keepdims=True) * F32(1.0 / 127)
        inverse = np.divide(F32(1), scale, out=np.zeros_like(scale), where=scale > 0)
        out[..., start : start + 32] = np.rint(part * inverse) * scale.astype(np.float16).astype(F32)
    return out


def rotated(x: np.ndarray, block: int) -> np.ndarray:
    """f32[..., dim], each `block` numbers times the orthonormal Hadamard matrix, as Sylvester has it."""
    matrix = np.ones((1, 1))
    while len(matrix) < block:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]]) / np.sqrt(2)
    return (x.reshape(-1, block) @ matrix).reshape(x.shape).astype(F32) if block else x
