"""Sums of neighbouring lanes, and the steps they are multiplied by, against numpy."""

import numpy as np
import pytest

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants import sums
from edgeinfer.simd_kernels.values import I8, I32, vec
from tests.simd_kernels.harness import computed

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("most", [2**15 - 1, 2**20])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_neighbours_are_added_and_two_vectors_become_one(kernels, lanes, most):
    probe = Emitter(None, kernels.tier)
    short = sums.adds_neighbours(probe, most)
    if not short and not sums.adds_long_neighbours(probe):
        pytest.skip("this tier has no instructions for that")
    x, y = RNG.integers(-most, most, (2, lanes), np.int32, endpoint=True)
    x[:2], y[-2:] = most, -most
    kind = vec(I32, lanes)

    def added(e, a, b):
        return (sums.neighbours if short else sums.long_neighbours)(e, e.load(a, kind), e.load(b, kind))

    got = computed(kernels, added, x, y, size=4 * lanes)
    pairs = [v.reshape(-1, 2, 2).sum(2) for v in (x, y)]
    assert (got.view(np.int32) == np.concatenate(pairs, axis=1).ravel()).all()


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("count", [8, 16])
def test_sums_are_multiplied_by_the_steps_of_their_lanes(kernels, count, signed):
    n, probe = kernels.tier.lanes, Emitter(None, kernels.tier)
    steps = RNG.integers(-128, 128, count).astype(np.int8)
    lanes, (x, y) = RNG.integers(0, count, n).tolist(), RNG.integers(-1000, 1000, (2, n)).astype(np.int32)

    def body(e, a, b, c):
        numbers, kind = sums.steps_at(e, e.load(c, vec(I8, count)), lanes, signed), vec(I32, n)
        a, b = e.load(a, kind), e.load(b, kind)
        return sums.neighbours(e, a, b, numbers) if sums.sums_short(e) else a * numbers

    got = computed(kernels, body, x, y, steps, size=4 * n).view(np.int32)
    pairs = np.concatenate([v.reshape(-1, 2, 2).sum(2) for v in (x, y)], axis=1).ravel()
    added = pairs if sums.sums_short(probe) else x
    assert (got == added * (steps if signed else steps.view(np.uint8)).astype(int)[lanes]).all()
