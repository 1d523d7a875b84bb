"""The kernels of every tier this CPU can run, built once for all tests."""

import pathlib

import pytest

from tests.simd_kernels import harness


@pytest.fixture(scope="session")
def kernel_folder(home) -> pathlib.Path:
    return home / "kernels"


@pytest.fixture(scope="session")
def built(kernel_folder):
    return {tier.name: harness.Kernels(tier, kernel_folder) for tier in harness.TIERS}


@pytest.fixture(params=[tier.name for tier in harness.TIERS])
def kernels(request, built) -> harness.Kernels:
    return built[request.param]
