"""Random blocks of every tensor type: any codes, scales that are finite and of both signs."""

import numpy as np

from edgeinfer.formats.ggml import GgmlType

# where the f16 numbers of a block are
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}  # fmt: skip
QUANTS = list(SCALES)
FLOATS = ["F32", "F16", "BF16"]


def random_rows(rng: np.random.Generator, kind: str, rows: int, cols: int) -> np.ndarray:
    """uint8[rows, row bytes]"""
    sizes = GgmlType[kind]
    if kind in FLOATS:
        x = rng.standard_normal((rows, cols), dtype=np.float32)
        if kind == "BF16":
            return np.ascontiguousarray(x.view(np.uint16)[:, 1::2]).view(np.uint8)
        return x.astype({"F32": "<f4", "F16": "<f2"}[kind]).view(np.uint8)
    blocks = rng.integers(0, 256, (rows, cols // sizes.block, sizes.bytes), dtype=np.uint8)
    for at in SCALES[kind]:
        scales = rng.uniform(0.1, 1, blocks.shape[:2]) * rng.choice([-1, 1], blocks.shape[:2])
        blocks[..., at : at + 2] = scales[..., None].astype("<f2").view(np.uint8)
    return blocks.reshape(rows, -1)
