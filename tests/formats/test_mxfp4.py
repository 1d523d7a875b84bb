"""MXFP4 put together of scales and codes: number by number against what they stand for."""

import numpy as np

from edgeinfer.formats import gguf
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.mxfp4 import MadeMxfp4
from edgeinfer.formats.virtual import VirtualFile

NUMBERS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def test_blocks_stand_for_the_same_numbers():
    rng = np.random.RandomState(0)
    scales = rng.randint(100, 150, (3, 8, 2)).astype(np.uint8)
    codes = rng.randint(0, 256, (3, 8, 2, 16)).astype(np.uint8)
    both = np.stack([codes & 15, codes >> 4], axis=-1).reshape(3, 8, 2, 32)  # the first in the low half
    expected = NUMBERS[both] * np.exp2(scales.astype(np.float32) - 127)[..., None]
    for rows in (slice(None), slice(1, None, 2)):  # all, and the odd ones as a view
        made = MadeMxfp4("x", expected[:, rows].reshape(3, -1, 64).shape, scales[:, rows], codes[:, rows])
        tensor = gguf.read("here", VirtualFile({"general.architecture": "none"}, [made])).tensors["x"]
        assert (tensor.type, tensor.shape) == (GgmlType.MXFP4, made.shape)
        assert np.array_equal(tensor.float32(), expected[:, rows].reshape(made.shape))
