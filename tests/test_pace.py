"""Pace: workers are left out while others take the cores, tried again, and kept where leaving them out was no help."""

import numpy as np
import pytest

from edgeinfer.pace import LONGEST_REST, REST, STUBBORN, WINDOW, Pace


def steps(pace, count, took, waited):
    """What `pace` wanted in each of so many steps; ticks by the number of workers."""
    wanted = []
    for _ in range(count):
        wanted.append(pace.threads)
        pace.note(took[pace.threads], waited[pace.threads])
    return wanted


QUIET = {1: 100, 2: 55}, {1: 0, 2: 10}
NOISY = {1: 110, 2: 180}, {1: 0, 2: 100}
SMALL = {1: 100, 2: 90}, {1: 0, 2: 50}  # a model so small that waiting is most of its time


def test_all_work_while_it_is_quiet():
    assert steps(Pace(2), 500, *QUIET) == [2] * 500


def test_one_less_while_it_is_noisy_and_all_soon_after():
    pace = Pace(2)
    noisy = steps(pace, 1000, *NOISY)
    assert noisy[: WINDOW * (REST + 1)] == [2] * WINDOW + [1] * WINDOW * REST
    assert noisy.count(1) > 1000 * (1 - 2 / LONGEST_REST)
    assert steps(pace, 2 * WINDOW * LONGEST_REST, *QUIET)[-WINDOW:] == [2] * WINDOW
    assert steps(pace, 1000, *NOISY) == noisy


def test_waiting_is_borne_where_less_workers_are_slower():
    wanted = steps(Pace(2), WINDOW * STUBBORN, *SMALL)
    assert wanted.count(1) == WINDOW


@pytest.mark.parametrize("most", [1, 2, 5])
def test_never_none_and_never_more_than_there_are(most):
    pace, rng = Pace(most), np.random.default_rng(most)
    for _ in range(3000):
        took = int(rng.integers(1, 1000))
        pace.note(took, int(rng.integers(0, took)))
        assert 1 <= pace.threads <= most


def test_what_counts_is_since_the_step_before_and_the_one_who_waits_most():
    pace, times = Pace(3), np.zeros((3, 2), np.int64)
    for _ in range(WINDOW):
        times = times + [[100, 10], [90, 20], [95, 70]]
        pace.look([tuple(ticks) for ticks in times.tolist()])
    assert pace.threads == 2


def test_without_a_clock_all_work():
    assert steps(Pace(4), 100, {4: 0}, {4: 0}) == [4] * 100
