"""What keeps a state, against numbers worked out by hand, and however the tokens are cut into steps."""

import math

import numpy as np
import pytest

from edgeinfer.reference_ops.step import Held
from tests.reference_ops.one_op import run


def test_shift_gives_the_row_before():
    held = [Held()]
    assert run("shift", [[1], [2]], chunks=((2, 0),), held=held) == [[0], [1]]
    held[0].length = 2
    assert run("shift", [[3]], held=held) == [[2]]


def test_conv_weighs_the_last_rows_newest_last():
    w = [[100, 10, 1], [0, 0, 2]]
    x = [[1, 1], [2, 2], [3, 3], [4, 4]]
    assert run("conv", x, weights=[w], chunks=((4, 0),)) == [[1, 2], [12, 4], [123, 6], [234, 8]]
    assert run("conv", x[:1], weights=[w, [5, 7]]) == [[6, 9]]


def test_ssm_decays_and_adds():
    log2, log4 = math.log(2), math.log(4)
    attrs = {"weights": [[[-1.0, -2.0]], [10]], "heads": 1, "groups": 1, "state": 2, "chunks": ((2, 0),)}
    # dt = ln 2: decays 1/2 and 1/4; the state after x = 3 is ln 2 * 3 * (1, 2)
    first, second = run("ssm", [[3], [0]], [[log2], [log2]], [[1, 2], [5, 5]], [[1, 1], [1, 1]], **attrs)
    assert first == pytest.approx([log2 * 9 + 30]) and second == pytest.approx([log2 * 3 * (1 / 2 + 2 / 4)])
    attrs["weights"] = [[[-1.0]], [0]]  # one decay for all numbers of a head
    _, second = run("ssm", [[3], [0]], [[log2], [log4]], [[1, 2], [5, 5]], [[1, 1], [1, 1]], **attrs)
    assert second == pytest.approx([log2 * 3 * 3 / 4])


def test_heads_of_a_group_share_b_and_c():
    b, c = [[1, 0, 0, 2]], [[1, 0, 0, 1]]  # two groups of state 2
    x, dt = [[1, 2, 3, 4]], [[1, 1, 1, 1]]
    attrs = {"weights": [[[0]] * 4, [[0]] * 4], "heads": 4, "groups": 2, "state": 2}
    assert run("ssm", x, dt, b, c, **attrs) == [[1, 2, 6, 8]]


def test_wkv_gives_the_newest_token_a_bonus():
    one = [[1, 0], [0, 1]]
    r, k, v, w = [[1, 1], [1, 1]], one, [[5, 6], [7, 8]], [[0.5, 0.25]] * 2
    first, second = run("wkv", r, k, v, w, weights=[[10, 100]], chunks=((2, 0),), heads=1)
    assert first == [50, 60]  # the bonus of the first key's dimension times v
    assert second == [5 + 700, 6 + 800]  # what was kept, not yet decayed, and the bonus of the second


def test_delta_replaces_what_a_key_stood_for():
    # with a = k and b = -k the value that k stood for is taken out before v is put in
    q = k = a = [[1, 0], [1, 0]]
    w, b = [[1, 1]] * 2, [[-1, 0]] * 2
    assert run("delta", q, k, [[5, 6], [7, 8]], w, a, b, chunks=((2, 0),), heads=1) == [[5, 6], [7, 8]]
    nothing = [[0, 0]] * 2
    assert run("delta", q, k, [[5, 6], [7, 8]], [[0.5, 1]] * 2, nothing, nothing, chunks=((2, 0),), heads=1) == [
        [5, 6],
        [9.5, 11],
    ]


def test_a_pool_s_rows_are_condensed_by_their_gates_and_places():
    held, three = [Held()], math.log(3)
    rows, gates, weights = [[2, 0], [6, 8], [5, 7]], [[0, 0], [three, 0], [9, 9]], [[[0, 0], [0, three]]]
    first = run("condense", rows[:2], gates[:2], weights=weights, chunks=((2, 0),), held=held, count=2)
    assert np.allclose(first, [[2, 0], [(2 + 3 * 6) / 4, (0 + 3 * 8) / 4]])
    held[0].length = 2
    assert np.allclose(run("condense", rows[2:], gates[2:], weights=weights, held=held, count=2), [[5, 7]])


def test_pools_that_overlap_have_what_the_one_before_gave():
    """A weight of 1, of 3 by a gate and of 9 by a place; the first column is for the pool after."""
    held, three = [Held()], math.log(3)
    weights = [[[0, 0], [2 * three, 0]]]
    rows, gates = [[2, 8], [4, 6], [9, 5], [9, 7]], [[three, 0], [0, three], [0, 0], [0, 0]]
    first = run("overlap", rows[:3], gates[:3], weights=weights, width=1, chunks=((3, 0),), held=held, count=2)
    before = 3 * 2 + 9 * 4
    assert np.allclose(first, [[8], [(8 + 3 * 6) / 4], [(before + 5) / 13]])
    held[0].length = 3
    last = run("overlap", rows[3:], gates[3:], weights=weights, width=1, held=held, count=2)
    assert np.allclose(last, [[(before + 5 + 7) / 14]])


SIZES = {"ssm": (4, 2, 3, 3), "wkv": (4, 4, 4, 4), "delta": (4, 4, 6, 4, 4, 4)}
ATTRS = {"ssm": {"heads": 2, "groups": 1, "state": 3}, "wkv": {"heads": 2}, "delta": {"heads": 2}}
WEIGHTS = {"ssm": [[[-0.5], [-1.0]], [1, 2]], "wkv": [[1, 2, 3, 4]], "delta": []}


@pytest.mark.parametrize("kind", SIZES)
def test_pieces_and_cuts_change_nothing(kind):
    rng = np.random.default_rng(1)
    ins = [rng.uniform(0, 0.5, (9, width)).astype(np.float32) for width in SIZES[kind]]
    width = SIZES[kind][2] if kind == "delta" else 4

    def piece(held, start, stop):
        out = run(
            kind,
            *(x[start:stop] for x in ins),
            weights=WEIGHTS[kind],
            width=width,
            chunks=((stop - start, 0),),
            held=[held],
            **ATTRS[kind],
        )
        held.length = stop
        return out

    whole = piece(Held(), 0, 9)
    held = Held()
    assert piece(held, 0, 4) + piece(held, 4, 5) + piece(held, 5, 9) == whole
    held = held.cut(6)
    assert piece(held, 6, 9) == whole[6:]
    held = held.cut(0)
    assert piece(held, 0, 9) == whole
