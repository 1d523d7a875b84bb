"""Measuring the machine: figures that are possible; how fast it is is no test."""

import numpy as np
import pytest

from edgeinfer import measure
from edgeinfer.simd_kernels import layout


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(measure, "SECONDS", 0.01)
    monkeypatch.setattr(measure, "BUFFER", 4 << 20)
    monkeypatch.setattr(measure, "DOT_TURNS", 1000)


@pytest.mark.parametrize("threads", [1, 2])
def test_reading_is_slower_than_light(threads):
    assert 1e7 < measure.read_bandwidth(threads) < 1e13


def test_data_that_cannot_be_written_is_only_read():
    data = layout.aligned(1 << 20)
    data.flags.writeable = False
    assert measure.read_bandwidth(2, data) > 0
    assert not data.any()


@pytest.mark.parametrize("threads", [1, 2])
def test_products(threads):
    assert 1e7 < measure.dot_peak(threads) < 1e14


def test_every_byte_is_read():
    """The kernel's sum tells what it has read."""
    data, out = layout.aligned(measure.READ_GRAIN * 3), layout.aligned(64)
    data[:] = np.random.default_rng(0).integers(0, 256, len(data))
    measure._kernel("probe.read", 3)(data.ctypes.data, len(data), out.ctypes.data)
    with np.errstate(over="ignore"):
        assert np.array_equal(out.view(np.int64), data.view(np.int64).reshape(-1, 8).sum(0))
