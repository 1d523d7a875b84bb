"""Random blocks of every tensor type: any codes, scales that are finite and of both signs where the type has signs."""

import numpy as np

from edgeinfer.formats.ggml import GgmlType

# where the f16 scale of a block is, and its f16 minimum if it has one
F16_AT = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "Q1_0": [0], "Q2_0": [0], "TQ1_0": [52], "TQ2_0": [64], "IQ4_NL": [0], "IQ4_XS": [0],
    "IQ1_S": [0], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
}  # fmt: skip
BYTES_AT = {"MXFP4": [0], "NVFP4": [0, 1, 2, 3], "IQ1_M": [49, 51, 53, 55]}  # others (IQ1_M: a nibble in each)
QUANTS = [*F16_AT, *BYTES_AT]
FLOATS = ["F64", "F32", "F16", "BF16"]


def scale_bytes(kind: str) -> list[int]:
    """Positions of the bytes of a block that hold its float scales."""
    return [at + i for at in F16_AT.get(kind, []) for i in range(2)] or BYTES_AT[kind]


def put_scales(blocks: np.ndarray, kind: str, *scales: np.ndarray) -> None:
    """Write scales f32[...], and minimums where the type has them, into blocks uint8[..., bytes], or what is near."""
    if kind in F16_AT:
        for at, numbers in zip(F16_AT[kind], scales, strict=True):
            blocks[..., at : at + 2] = numbers[..., None].astype("<f2").view(np.uint8)
    elif kind == "MXFP4":
        blocks[..., 0] = 128 + np.rint(np.log2(np.abs(scales[0])))
    elif kind == "NVFP4":  # eighths of a power of two up to 16 from 2 ** -6 on
        fraction, power = np.frexp(2 * np.abs(scales[0]))
        blocks[..., :4] = (np.floor(16 * fraction - 8) + 8 * (power + 6)).astype(np.uint8)[..., None]
    else:
        bits = scales[0].astype("<f2").view("<u2")[..., None] >> np.array([0, 4, 8, 12], np.uint16) & 15
        blocks[..., 49::2] = blocks[..., 49::2] & 15 | (bits << 4).astype(np.uint8)


def random_blocks(rng: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """uint8[count, bytes]"""
    return random_rows(rng, kind, count, GgmlType[kind].block)


def random_rows(rng: np.random.Generator, kind: str, rows: int, cols: int) -> np.ndarray:
    """uint8[rows, row bytes]"""
    sizes = GgmlType[kind]
    if kind in FLOATS:
        x = rng.standard_normal((rows, cols), dtype=np.float32)
        if kind == "BF16":
            return np.ascontiguousarray(x.view(np.uint16)[:, 1::2]).view(np.uint8)
        return x.astype({"F64": "<f8", "F32": "<f4", "F16": "<f2"}[kind]).view(np.uint8)
    blocks = rng.integers(0, 256, (rows, cols // sizes.block, sizes.bytes), dtype=np.uint8)
    shape = (len(F16_AT.get(kind, [0])), *blocks.shape[:2])
    put_scales(blocks, kind, *(rng.uniform(0.1, 1, shape) * rng.choice([-1, 1], shape)).astype(np.float32))
    return blocks.reshape(rows, -1)
