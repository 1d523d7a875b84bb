"""States of recurrent ops: how much they take, and what a rollback gives back."""

import ctypes

import numpy as np
import pytest

from edgeinfer import state
from edgeinfer.op import Op, Value
from edgeinfer.state import COPIES, States


def op(kind, number, width, ins=(), **attrs):
    return Op(kind, Value(number, width), tuple(Value(100, w) for w in ins), (), attrs)


OPS = [
    op("add", 1, 64, (64, 64)),
    op("shift", 2, 20),
    op("conv", 3, 48, kernel=4),
    op("conv", 4, 16, kernel=1),
    op("ssm", 5, 64, (64, 64, 32, 32), heads=64, groups=2, state=16),  # two groups of 32 heads of one column
    op("ssm", 6, 80, (80, 4, 32, 32), heads=4, groups=2, state=16),  # four heads of 20 columns
    op("wkv", 7, 64, (64,) * 4, heads=2),
    op("delta", 8, 40, (16, 16, 40, 16, 16, 16), heads=2),  # two heads: 8 numbers for each of 20 columns
    op("condense", 9, 48, (48, 48), count=4),
    op("overlap", 10, 24, (48, 48), count=4),
]
# blocks of 16 columns times numbers a column keeps; a convolution over one token keeps room for one
VECTORS = [2 * 1, 3 * 3, 1 * 1, 4 * 16, 8 * 16, 4 * 32, 4 * 8, 3 * 3, 2 * 9]


def test_ops_have_places_of_their_own():
    offsets, size = state.places(OPS)
    assert list(offsets) == [2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert [*offsets.values(), size] == [64 * sum(VECTORS[:i]) for i in range(10)]
    assert state.sequence_bytes(OPS) == (1 + COPIES) * size and state.sequence_bytes(OPS[:1]) == 0


class Counting:
    """Steps as the kernels do them: a state is the tokens seen so far, the copy what they were before the last."""

    def __init__(self, n_seq=2):
        self.states, self.length = States(OPS[:2], n_seq), [0] * n_seq

    def step(self, seq, count, end=True):
        home, copy = self.states.begin(seq, count)
        before = memory(home)[0]
        if copy:
            memory(copy)[:] = before + count - 1
        memory(home)[:] = before + count
        if end:
            self.states.end(seq, self.length[seq], count)
            self.length[seq] += count

    def cut(self, seq, length):
        """Cut as far as can be; what the states then hold."""
        self.length[seq] = self.states.reach(seq, length)
        self.states.cut(seq, self.length[seq])
        return self.length[seq]

    def seen(self, seq):
        return memory(self.states.begin(seq, 1)[0]).tolist()


def memory(address):
    size = state.places(OPS[:2])[1] // 4
    return np.frombuffer((ctypes.c_float * size).from_address(address), np.float32)


def test_a_cut_goes_to_the_last_copy_that_is_short_enough():
    run = Counting()
    for count in (10, 1, 1, 5, 1):  # copies of 9 and 16 tokens
        run.step(0, count)
    assert run.states.reach(0, 18) == 18 and run.states.reach(0, 17) == 16
    assert run.states.reach(0, 15) == 9 and run.states.reach(0, 8) == 0
    assert run.cut(0, 17) == 16 and set(run.seen(0)) == {16}


def test_what_lies_past_a_cut_is_forgotten():
    run = Counting()
    for count in (10, 5):
        run.step(0, count)
    assert run.cut(0, 12) == 9
    run.step(0, 1)
    assert run.states.reach(0, 10) == 10 and run.cut(0, 9) == 9  # and not 14, which was another text's
    assert run.cut(0, 8) == 0 and set(run.seen(0)) == {0}


def test_the_oldest_copies_are_given_up():
    run = Counting()
    for _ in range(COPIES + 2):
        run.step(0, 10)
    held = [length for length in range(10 * (COPIES + 2)) if run.states.reach(0, length) == length]
    assert held == [0, *(10 * turn + 9 for turn in range(2, COPIES + 2))]
    assert run.cut(0, held[-1]) == held[-1] and set(run.seen(0)) == {held[-1]}
    assert run.cut(0, held[-2]) == held[-2] and set(run.seen(0)) == {held[-2]}


def test_sequences_do_not_share():
    run = Counting()
    run.step(0, 10)
    run.step(1, 3)
    assert run.cut(0, 0) == 0 and set(run.seen(0)) == {0}
    assert run.cut(1, 2) == 2 and set(run.seen(1)) == {2}


def test_a_step_that_broke_off_leaves_only_copies():
    run = Counting()
    run.step(0, 10)
    run.step(0, 4, end=False)
    assert run.states.broken(0) and not run.states.broken(1)
    assert run.cut(0, 10) == 9 and set(run.seen(0)) == {9}


def test_random_steps_and_cuts_hold_what_they_say():
    run, rng, outcomes = Counting(1), np.random.default_rng(0), set()
    for _ in range(500):
        if rng.random() < 0.3 and run.length[0]:
            asked = int(rng.integers(run.length[0] + 1))
            got = run.cut(0, asked)
            assert got <= asked
            outcomes.add((got == asked, got > 0))
        else:
            run.step(0, int(rng.integers(1, 6)))
        assert set(run.seen(0)) == {run.length[0]}
        run.states.end(0, run.length[0] - 1, 1)
    assert outcomes >= {(True, True), (False, True), (False, False)}


def test_models_without_states_can_be_cut_anywhere():
    states = States(OPS[:1], 1)
    states.begin(0, 10)
    assert not states.broken(0)
    states.end(0, 0, 10)
    assert states.bytes == 0 and states.reach(0, 7) == 7
    states.cut(0, 7)
    assert states.reach(0, 5) == 5


@pytest.mark.parametrize("kind", ["add", "attend", "linear"])
def test_other_ops_keep_none(kind):
    assert state.shape(op(kind, 1, 64)) == (0, 0)
