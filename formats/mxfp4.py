"""MXFP4 as Hugging Face's folders have it: scales and codes in tensors apart, which GGUF has block by block.

Source: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf."""

import dataclasses
import math

import numpy as np

from edgeinfer.formats.ggml import GgmlType


@dataclasses.dataclass(frozen=True)
class MadeMxfp4:
    """A tensor to be made, as `virtual.Made`, of `scales` uint8 [experts, rows, blocks] and `codes` uint8
    [experts, rows, blocks, 16], views of files; a byte has the codes of two neighbours, the first in its low half."""

    name: str
    shape: tuple[int, ...]
    scales: np.ndarray
    codes: np.ndarray
    type: GgmlType = GgmlType.MXFP4

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) // self.type.block * self.type.bytes

    def bytes(self) -> np.ndarray:
        """uint8 [nbytes], a new array.  GGUF's byte has the codes of numbers 16 apart."""
        made = np.empty((*self.scales.shape, self.type.bytes), np.uint8)
        made[..., 0] = self.scales
        half = self.codes.shape[-1] // 2
        for out, codes in zip(made[..., 1:], self.codes, strict=True):  # one expert after the other
            first, last = codes[..., :half], codes[..., half:]
            out[..., 0::2] = first & 15 | last << 4
            out[..., 1::2] = first >> 4 | last & 0xF0
        return made.reshape(-1)
