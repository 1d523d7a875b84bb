"""What kernels are told of a step: the tables of rotations; the rest is tested with the backend (test_cpu.py)."""

import ctypes

import numpy as np

from edgeinfer.rope import Rope
from edgeinfer.step import RopeTable


def test_positions_of_a_pool_turn_as_its_first_does():
    table, plain = RopeTable(Rope((1.0,), 1.0, "halves", stride=4), 30), RopeTable(Rope((1.0,), 1.0, "halves"), 30)
    table.reach(30), plain.reach(30)
    assert (table._table == plain._table[np.arange(30) // 4 * 4]).all()


def test_rope_tables_reach_as_far_as_asked():
    rope = Rope((1.0, 0.01), 0.5, "halves")
    table = RopeTable(rope, 700)
    for reach in (1, 512, 513, 700):
        table.reach(reach)
        angles = np.arange(reach)[:, None] * np.array([1.0, 0.01])
        got = np.frombuffer((ctypes.c_float * (4 * reach)).from_address(table.address), np.float32).reshape(reach, 2, 2)
        assert np.abs(got - np.stack([np.cos(angles), np.sin(angles)], axis=1) * 0.5).max() < 1e-7
