"""Ternary weights as Hugging Face's BitNet has them, four rows in one of bytes; GGUF has 256 neighbours in a block.

Sources: https://github.com/huggingface/transformers/blob/main/src/transformers/integrations/bitnet.py, and TQ2_0 in
https://github.com/ggml-org/ggml/blob/master/src/ggml-quants.c."""

import dataclasses
import math

import numpy as np

from edgeinfer.formats.ggml import GgmlType

PACKED = 4  # rows: bits 2 * i of row r are those of row i * rows + r


@dataclasses.dataclass(frozen=True)
class MadeTernary:
    """A tensor to be made, as `virtual.Made`, of `codes` uint8 [rows, cols], a view of a file: two bits for each
    number, which are 1 more than it.  It has four times as many rows, and cols are a multiple of 256."""

    name: str
    codes: np.ndarray
    type: GgmlType = GgmlType.TQ2_0

    @property
    def shape(self) -> tuple[int, ...]:
        return PACKED * self.codes.shape[0], self.codes.shape[1]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) // self.type.block * self.type.bytes

    def bytes(self) -> np.ndarray:
        """uint8 [nbytes], a new array.  GGUF's byte has numbers 32 apart; a block ends in its scale, which is 1."""
        rows, cols = self.codes.shape
        made = np.empty((PACKED, rows, cols // self.type.block, self.type.bytes), np.uint8)
        for part, out in enumerate(made):
            codes = (self.codes >> 2 * part & 3).reshape(rows, -1, 2, 4, 32)
            packed = codes[:, :, :, 0] | codes[:, :, :, 1] << 2 | codes[:, :, :, 2] << 4 | codes[:, :, :, 3] << 6
            out[..., :-2] = packed.reshape(rows, -1, self.type.bytes - 2)
            out[..., -2:] = np.ones(1, "<f2").view(np.uint8)
        return made.reshape(-1)
