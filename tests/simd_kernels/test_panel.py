"""The transpose that makes columns of a panel against numpy."""

import numpy as np
import pytest

from edgeinfer.simd_kernels.panel import transpose
from tests.simd_kernels.harness import call, guarded


@pytest.mark.parametrize("words", [1, 3, 4, 5, 8, 15, 16, 17, 32, 37])
def test_transpose(kernels, words):
    """As many rows as a register has lanes become columns of the panel; those beside them stay."""
    lanes, rows = kernels.tier.lanes, kernels.tier.tile_rows
    source = guarded(np.arange(lanes * (words + 2), dtype=np.int32).reshape(lanes, -1))[:, 2:]
    out = guarded(np.full((words, rows), -1, np.int32))
    place = out[:, rows - lanes :].ctypes.data
    call(kernels.build(4, transpose), source.ctypes.data, source.strides[0], words, place)
    assert (out[:, rows - lanes :] == source.T).all() and (out[:, : rows - lanes] == -1).all()
