"""The grids: equal to those of the gguf package."""

import gguf.quants
import numpy as np
import pytest

from edgeinfer.formats.grids import FP4_LEVELS, IQ4_LEVELS, grid

SHAPES = {
    "IQ1_S": (2048, 8), "IQ1_M": (2048, 8), "IQ2_XXS": (256, 8), "IQ2_XS": (512, 8), "IQ2_S": (1024, 8),
    "IQ3_XXS": (256, 4), "IQ3_S": (512, 4),
}  # fmt: skip


@pytest.mark.parametrize("name, shape", SHAPES.items())
def test_equal_to_those_of_the_gguf_package(name, shape):
    theirs = getattr(gguf.quants, name)
    theirs.init_grid()
    assert np.array_equal(grid(name), theirs.grid.reshape(shape)) and grid(name).dtype == np.int8


def test_levels_are_those_of_the_gguf_package():
    assert IQ4_LEVELS == gguf.quants.IQ4_NL.kvalues and FP4_LEVELS == gguf.quants.MXFP4.kvalues


def test_a_grid_is_made_once_and_cannot_be_changed():
    assert grid("IQ3_S") is grid("IQ3_S")
    with pytest.raises(ValueError, match="read-only"):
        grid("IQ3_S")[0, 0] = 1
