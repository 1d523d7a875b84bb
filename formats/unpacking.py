"""What the layouts of blocks have in common: fields as float32, nibbles and bit pairs in their order.

A module `dequantize_*.py` has an `UNPACK` of its types: the layout of a block (`b` = bits per weight), and a function
of blocks [n] to float32 [n, elements].  All steps are float32 in the order of ggml's `dequantize_row_*`: the results
are equal to ggml's bit for bit.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from edgeinfer.formats.ggml import GgmlType

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
Unpack: TypeAlias = dict[GgmlType, tuple[np.dtype, Callable[[np.ndarray], Floats]]]

SHIFT_4 = np.array([0, 4], np.uint8)[:, None]
SHIFT_2 = np.array([0, 2, 4, 6], np.uint8)[:, None]


def f32(field: np.ndarray) -> Floats:
    """float32 [n, 1] of a field with one number a block."""
    return field.astype(np.float32)[:, None]


def nibbles(qs: np.ndarray, group: int) -> np.ndarray:
    """uint8[n, 2 * bytes]: of each `group` bytes all the low nibbles, then all the high ones."""
    part = qs.reshape(len(qs), -1, 1, group)
    return (part >> SHIFT_4 & 15).reshape(len(qs), -1)


def pairs(qs: np.ndarray, group: int) -> np.ndarray:
    """uint8[n, 4 * bytes]: of each `group` bytes all the lowest bit pairs, then all the next ones."""
    part = qs.reshape(len(qs), -1, 1, group)
    return (part >> SHIFT_2 & 3).reshape(len(qs), -1)


def scaled(scale: np.ndarray, q: np.ndarray) -> Floats:
    """float32 [n, groups, elements of a group]: scale [n, groups] * q [n, elements]."""
    return scale[:, :, None] * q.reshape(*scale.shape, -1).astype(np.float32)
