"""Choice of experts, their linear layers and weighted sums against numbers worked out by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from edgeinfer.backend import Chunk
from edgeinfer.plan import Op, Value
from edgeinfer.reference_ops import OPS
from edgeinfer.reference_ops.step import Held, Step, Weights
from tests.reference_ops.one_op import run

PLAIN = {"gate": "softmax", "normalise": False, "scale": 1.0, "groups": 1, "groups_used": 1}
SCORES = [[math.log(x) for x in (1, 4, 2, 1)]]  # softmax: 1/8, 4/8, 2/8, 1/8


def route(scores, used=2, **changes):
    weights = changes.pop("weights", ())
    (row,) = run("route", scores, weights=weights, width=2 * used, used=used, **(PLAIN | changes))
    return [int(expert) for expert in row[:used]], row[used:]


def test_the_best_experts_come_first_with_their_share():
    assert route(SCORES) == ([1, 2], pytest.approx([0.5, 0.25]))
    assert route(SCORES, used=3)[0] == [1, 2, 0]  # of equals the first


def test_weights_may_be_normalised_and_scaled():
    assert route(SCORES, normalise=True, scale=3.0)[1] == pytest.approx([2, 1])
    assert route(SCORES, gate="chosen")[1] == pytest.approx([2 / 3, 1 / 3])


def test_a_bias_decides_the_choice_but_not_the_weights():
    sigmoids = [x / (1 + x) for x in (1, 4, 2, 1)]
    assert route(SCORES, gate="sigmoid") == ([1, 2], pytest.approx([sigmoids[1], sigmoids[2]]))
    assert route(SCORES, gate="sigmoid", weights=[[0, 0, 0, 1]]) == ([3, 1], pytest.approx([sigmoids[3], sigmoids[1]]))


def test_values_may_be_roots_of_softplus():
    (_, weights) = route(SCORES, gate="sqrtsoftplus")
    assert weights == pytest.approx([math.log(1 + 4) ** 0.5, math.log(1 + 2) ** 0.5])


def test_a_table_may_say_the_experts_by_the_token():
    """The token's id is 0."""
    table = np.array([[3, 1], [9, 9]], np.int32)
    held = SimpleNamespace(data=table.view(np.uint8))
    step = Step(Weights({"t": held}), [Chunk(0, [0], 1)], [Held()])
    attrs = {"used": 2, "gate": "softmax", "normalise": True, "scale": 2.0}
    op = Op("assign", Value(1, 4), (Value(0, 4),), ("t",), attrs)
    assert OPS["assign"](op, step, np.array(SCORES, np.float32))[0] == pytest.approx([3, 1, 2 / 5, 8 / 5])


def test_only_the_best_groups_are_looked_at():
    # the best expert is in the first group, but the second has the better pair
    scores = [[math.log(x) for x in (6, 1, 5, 5)]]
    assert route(scores, groups=2, groups_used=1)[0] == [2, 3]
    assert route(scores, groups=2, groups_used=2)[0] == [0, 2]


MATRICES = [[[1, 0], [0, 1]], [[2, 0], [0, 2]], [[0, 1], [1, 0]]]
CHOICE = [[2, 1, 0.5, 0.25], [0, 2, 1, 1]]


def test_each_token_goes_through_its_own_experts():
    x = [[1, 2], [3, 4]]
    out = run("expert_linear", x, CHOICE, weights=[MATRICES], width=4, used=2, each=False)
    assert out == [[2, 1, 2, 4], [3, 4, 4, 3]]
    biases = [[10, 20], [30, 40], [50, 60]]
    out = run("expert_linear", x, CHOICE, weights=[MATRICES, biases], width=4, used=2, each=False)
    assert out == [[52, 61, 32, 44], [13, 24, 54, 63]]


def test_each_expert_may_have_an_input_of_its_own():
    x = [[1, 2, 3, 4], [5, 6, 7, 8]]
    out = run("expert_linear", x, CHOICE, weights=[MATRICES], width=4, used=2, each=True)
    assert out == [[2, 1, 6, 8], [5, 6, 8, 7]]


def test_pick_takes_the_chosen_experts_numbers():
    assert run("pick", CHOICE, weights=[[10, 20, 30]], width=2) == [[30, 20], [10, 30]]


def test_group_divides_the_chosen_experts_numbers():
    assert run("group", [[5, 2, 0, 0.5, 0.25, 0.25]], width=3, experts=6, size=2) == [[2, 1, 0]]


def test_mix_sums_parts_by_weight():
    assert run("mix", [[1, 2, 3, 4]], [[10, 1]], width=2, parts=2) == [[13, 24]]
    assert run("mix", [[1, 2, 3, 4]], [[10, 1, 0, 2]], width=4, parts=2) == [[13, 24, 6, 8]]
    assert run("mix", [[1, 2]], [[10, 3]], width=4, parts=1) == [[10, 20, 3, 6]]


def test_no_rows_no_trouble():
    empty = np.zeros((0, 4))
    assert run("mix", empty, np.zeros((0, 2)), width=2, parts=2, chunks=((1, 0),)) == []
