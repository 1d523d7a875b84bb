"""Measuring the machine: figures that are possible; how fast it is is no test."""

import numpy as np
import pytest

from edgeinfer import measure
from edgeinfer.simd_kernels import layout


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(measure, "SECONDS", 0.01)
    monkeypatch.setattr(measure, "BRIEF", 0.01)
    monkeypatch.setattr(measure, "BUFFER", 4 << 20)
    monkeypatch.setattr(measure, "DOT_TURNS", 1000)


@pytest.fixture(params=[1, 2])
def probe(request):
    made = measure.Probe(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("brief", [False, True])
def test_reading_is_slower_than_light(probe, brief):
    assert 1e7 < probe.read_bandwidth(brief=brief) < 1e13


def test_the_buffer_leaves_memory_to_others(probe, monkeypatch):
    made = []
    monkeypatch.setattr(measure.machine, "available_memory", lambda: 2 << 20)
    monkeypatch.setattr(measure, "aligned", lambda size: made.append(size) or layout.aligned(size))
    assert probe.read_bandwidth() > 0 and made == [1 << 20]


def test_data_is_only_read(probe):
    data = layout.aligned(1 << 20)
    assert probe.read_bandwidth(data) > 0
    assert not data.any()


@pytest.mark.parametrize("brief", [False, True])
def test_products(probe, brief):
    assert 1e7 < probe.dot_peak(brief) < 1e14


def test_every_byte_is_read(probe):
    """The kernel's sums, of each thread, tell what it has read."""
    data = layout.aligned(measure.READ_GRAIN * 6)
    data[:] = np.random.default_rng(0).integers(0, 256, len(data))
    probe.read_bandwidth(data)
    with np.errstate(over="ignore"):
        want = data.view(np.int64).reshape(probe.threads, -1, 8).sum(1)
    assert np.array_equal(probe._outs.view(np.int64).reshape(probe.threads, 16)[:, :8], want)


@pytest.mark.parametrize("brief, want", [(False, 1.0), (True, 3.0)])
def test_the_best_time_counts_or_the_usual_one(monkeypatch, brief, want):
    """By a clock of its own."""
    clock, taken = [0.0], [3.0, 1.0, 2.0, 5.0, 4.0]
    monkeypatch.setattr(measure, "SECONDS", 15)
    monkeypatch.setattr(measure, "BRIEF", 15)
    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock[0])

    def once():
        clock[0] += taken.pop(0)

    assert measure._seconds(once, brief) == want and not taken
