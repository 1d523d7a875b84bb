"""Ternary weights of four rows in one: number by number against what they stand for."""

import numpy as np

from edgeinfer.formats import gguf
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.ternary import MadeTernary
from edgeinfer.formats.virtual import VirtualFile

WEIGHTS = [[-1, 0, 1], [1, 1, -1], [0, -1, -1], [1, 0, 0]]
BYTES = [[0x98, 0x49, 0x42]]  # what transformers' pack_weights makes of them


def test_rows_are_those_of_transformers():
    codes = np.array(BYTES, np.uint8)
    assert [[int(c >> 2 * i & 3) - 1 for c in codes[0]] for i in range(4)] == WEIGHTS


def test_blocks_stand_for_the_same_numbers():
    rng = np.random.RandomState(0)
    weights = rng.randint(-1, 2, (24, 512))
    packed = sum((weights[6 * i : 6 * i + 6] + 1) << 2 * i for i in range(4)).astype(np.uint8)
    for codes in (packed, np.asfortranarray(packed)):
        made = MadeTernary("x", codes)
        tensor = gguf.read("here", VirtualFile({"general.architecture": "none"}, [made])).tensors["x"]
        assert (tensor.type, tensor.shape) == (GgmlType.TQ2_0, (24, 512))
        assert np.array_equal(tensor.float32(), weights.astype(np.float32))
