"""The avxvnni tier where a CPU has its instructions in AVX512's encoding only: tests that multiply, or tile, again."""

import dataclasses

import pytest

from edgeinfer.simd_kernels import cpu
from tests.simd_kernels import harness
from tests.simd_kernels.quants.test_quant import test_dot_is_the_product_with_rounded_activations as test_quants
from tests.simd_kernels.test_activation import test_rows_in_tiles
from tests.simd_kernels.test_emit import test_dot_is_exact_at_the_extremes as test_dot
from tests.simd_kernels.test_linear import test_linear
from tests.simd_kernels.test_panel import test_transpose
from tests.simd_kernels.test_tile import test_float_tile, test_tile, test_tile_does_not_saturate

AGAIN = (
    *(test_dot, test_float_tile, test_linear, test_quants, test_rows_in_tiles),
    *(test_tile, test_tile_does_not_saturate, test_transpose),
)
TIER = cpu.tier("avxvnni")
IN_AVX512 = dataclasses.replace(TIER, cpu="x86-64-v4", features=("avx512vnni",), needs=cpu.AVX2 + cpu.AVX512)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    if TIER in harness.TIERS:
        pytest.skip("this CPU runs the tier itself")
    if why := cpu.missing(IN_AVX512, cpu.host_features()):
        pytest.skip(why)
    return harness.Kernels(IN_AVX512, tmp_path_factory.mktemp("avxvnni"))
