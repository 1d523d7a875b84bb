"""Ops on single rows against numbers worked out by hand."""

import math

import numpy as np
import pytest

from edgeinfer.reference_ops.step import Held
from tests.reference_ops.one_op import run


def test_embed_takes_rows_times_scale():
    table = [[1, 2], [3, 4], [5, 6]]
    rows = {"weights": [table], "width": 2, "chunks": ((3, 0),)}  # ids 0, 1, 2
    assert run("embed", **rows, scale=2.0, instead=()) == [[2, 4], [6, 8], [10, 12]]
    assert run("embed", **rows, scale=1.0, instead=((1, 2), (2, 0))) == [[1, 2], [5, 6], [1, 2]]


def test_marks_are_numbers_of_ids():
    assert run("marks", width=1, chunks=((3, 0), (1, 0)), numbers=((1, 2.5),), other=7.0) == [[7], [2.5], [7], [7]]


def test_norm_divides_by_the_root_of_the_mean_square():
    # mean square 12.5 + 3.5 = 16
    assert run("norm", [[3, 4]], weights=[[1, 2]], eps=3.5, size=2) == [[0.75, 2]]


def test_norm_of_heads_is_of_each_head_alone():
    assert run("norm", [[3, 4, 0, 8]], weights=[[1, 2]], eps=0.0, size=2) == pytest.approx(
        np.array([[3 / 12.5**0.5, 8 / 12.5**0.5, 0, 16 / 32**0.5]])
    )


def test_linear_is_rows_of_the_matrix_plus_bias():
    matrix = [[1, 2], [3, 4], [5, 6]]
    assert run("linear", [[1, 10]], weights=[matrix], width=3) == [[21, 43, 65]]
    assert run("linear", [[1, 10]], weights=[matrix, [1, 2, 3]], width=3) == [[22, 45, 68]]


def test_split_takes_columns():
    assert run("split", [[1, 2, 3, 4]], width=2, start=1, size=4) == [[2, 3]]
    assert run("split", [[1, 2, 3, 4, 5, 6]], width=2, start=1, size=3) == [[2, 5]]


def test_gated_activations():
    assert run("gated", [[0, 1]], [[5, 2]], act="silu") == pytest.approx(np.array([[0, 2 / (1 + math.exp(-1))]]))
    # gelu(1) in the tanh form, worked out with 12 digits
    assert run("gated", [[0, 1, -9]], [[5, 2, 1]], act="gelu") == pytest.approx(np.array([[0, 2 * 0.841191990608, 0]]))


def test_add_and_softcap():
    assert run("add", [[1, 2]], [[3, 5]]) == [[4, 7]]
    assert run("softcap", [[0, 5, 1e9]], cap=5.0) == pytest.approx(np.array([[0, 5 * math.tanh(1), 5]]))


def test_outputs_are_the_last_rows_of_each_chunk():
    rows = [[i] for i in range(6)]
    assert run("outputs", rows, chunks=((3, 1), (1, 0), (2, 2))) == [[2], [4], [5]]


def test_positions_are_rows_of_a_table_by_position():
    table = [[1, 2], [3, 4], [5, 6]]
    assert run("positions", weights=[table], width=2, chunks=((2, 0),), held=[Held(length=1)]) == [[3, 4], [5, 6]]


def test_norm_without_weights_and_with_weights_of_each_group():
    x = [[3, 4, 0, 8]]
    plain = [3 / 12.5**0.5, 4 / 12.5**0.5, 0, 8 / 32**0.5]
    assert run("norm", x, eps=0.0, size=2)[0] == pytest.approx(plain)
    weighted = [a * w for a, w in zip(plain, [1, 2, 3, 4], strict=True)]
    assert run("norm", x, weights=[[1, 2, 3, 4]], eps=0.0, size=2)[0] == pytest.approx(weighted)
    assert run("norm", x, weights=[[[1, 2], [3, 4]]], eps=0.0, size=2)[0] == pytest.approx(weighted)


def test_layer_norm_takes_the_mean_away():
    # mean 3, variance 4, with eps 5 a root of 3
    assert run("layer_norm", [[1, 5]], weights=[[1, 3], [10, 20]], eps=5.0, size=2) == pytest.approx(
        np.array([[10 - 2 / 3, 22]])
    )
    assert run("layer_norm", [[1, 5]], eps=5.0, size=2) == pytest.approx(np.array([[-2 / 3, 2 / 3]]))


def test_l2_norm_divides_by_the_length_or_by_eps():
    assert run("l2_norm", [[3, 4, 0.03, 0.04]], size=2, eps=1.0) == pytest.approx(np.array([[0.6, 0.8, 0.03, 0.04]]))


def test_softmax_is_of_each_group_alone_and_of_large_numbers_too():
    third = math.e / (1 + math.e)
    assert run("softmax", [[1000, 1001, 5, 5]], size=2) == pytest.approx(np.array([[1 - third, third, 0.5, 0.5]]))


def test_sinkhorn_makes_rows_and_columns_sum_to_one():
    x = [[0.5, 2, -1, 0, 3, 1, 1, 1, -2]]
    (y,) = run("sinkhorn", x, side=3, turns=30, eps=1e-6)
    square = np.array(y).reshape(3, 3)
    assert square.sum(axis=0) == pytest.approx(np.ones(3), abs=1e-4)
    assert square.sum(axis=1) == pytest.approx(np.ones(3), abs=1e-4)
    ratios = np.exp(np.array(x).reshape(3, 3))  # and what does not change: products across
    assert square[0, 0] * square[1, 1] / (square[0, 1] * square[1, 0]) == pytest.approx(
        ratios[0, 0] * ratios[1, 1] / (ratios[0, 1] * ratios[1, 0]), rel=1e-3
    )
    once = np.exp([[0.0, math.log(3)], [0, 0]]) / [[4], [2]]  # of rows alone: 1/4 3/4, 1/2 1/2
    assert run("sinkhorn", [[0, math.log(3), 0, 0]], side=2, turns=1, eps=0.0)[0] == pytest.approx(
        (once / once.sum(axis=0)).reshape(-1)
    )


def test_fill_has_a_row_for_each_of_its_input():
    assert run("fill", [[7], [8]], width=3, numbers=(1.0, 2.0, 0.5)) == [[1, 2, 0.5], [1, 2, 0.5]]


def test_head_linear_has_a_matrix_for_each_part():
    matrices = [[[1, 0], [0, 1], [1, 1]], [[2, 0], [0, 2], [2, 2]]]
    assert run("head_linear", [[1, 2, 3, 4]], weights=[matrices], width=6, heads=2) == [[1, 2, 3, 6, 8, 14]]


def test_join_and_repeat():
    assert run("join", [[1, 2]], [[3]], width=3, groups=1) == [[1, 2, 3]]
    assert run("join", [[1, 2, 3, 4]], [[5, 6]], width=6, groups=2) == [[1, 2, 5, 3, 4, 6]]
    assert run("repeat", [[1, 2]], width=4, times=2, size=2) == [[1, 2, 1, 2]]
    assert run("repeat", [[1, 2]], width=4, times=2, size=1) == [[1, 1, 2, 2]]


ACTIVATIONS = {
    "silu": (1, 1 / (1 + math.exp(-1))),
    "gelu": (1, 0.841191990608),
    "gelu_erf": (1, 0.841344746069),
    "relu": (-2, 0),
    "relu2": (3, 9),
    "sigmoid": (0, 0.5),
    "tanh": (1, math.tanh(1)),
    "softplus": (0, math.log(2)),
    "exp": (1, math.e),
    "sqrt": (9, 3),
}


@pytest.mark.parametrize("act", ACTIVATIONS)
def test_activations(act):
    x, y = ACTIVATIONS[act]
    assert run("activate", [[x, x]], act=act)[0] == pytest.approx([y, y])


def test_xielu_is_a_parabola_above_and_an_exponential_below_zero():
    constants = {"alpha_p": 2.0, "alpha_n": 3.0, "beta": 0.5, "eps": -1e-6}
    positive, negative = 2 * 4 + 0.5 * 2, (math.exp(-1) - 1 + 1) * 3 - 0.5
    assert run("activate", [[2, -1]], act="xielu", **constants)[0] == pytest.approx([positive, negative])


def test_the_gate_of_gpt_oss_is_clamped():
    swish = 7 / (1 + math.exp(-1.702 * 7))
    assert run("gated", [[9, 9]], [[1, 9]], act="oss")[0] == pytest.approx([swish * 2, swish * 8])
    assert run("gated", [[0, -9]], [[1, -9]], act="oss")[0] == pytest.approx([0, -9 / (1 + math.exp(1.702 * 9)) * -6])


def test_arithmetic():
    assert run("mul", [[1, 2, 3, 4]], [[10, 100]]) == [[10, 20, 300, 400]]
    assert run("plus", [[1, 2]], weights=[[[10], [20]]]) == [[11, 22]]
    assert run("times", [[1, 2]], weights=[[10, 20]]) == [[10, 40]]
    assert run("times", [[1, 2]], weights=[[10]]) == [[10, 20]]
    assert run("times", [[1, 2, 3, 4]], weights=[[10, 20]]) == [[10, 20, 60, 80]]
    assert run("dot", [[1, 2, 3, 4]], [[5, 6, 7, 8]], width=2) == [[17, 53]]
    assert run("scale", [[1, 2]], factor=3.0) == [[3, 6]]
    assert run("clamp", [[-5, 1, 5]], limit=2.0) == [[-2, 1, 2]]


def test_sparsify_keeps_what_lies_far_above_the_mean():
    # mean 2, deviation of four numbers with one degree of freedom less: 2
    assert run("sparsify", [[1, 1, 1, 5]], deviations=0.5) == [[0, 0, 0, 2]]


def test_pooling_makes_one_row_of_each_chunk():
    x, chunks = [[1, 8], [3, 4], [5, 0], [7, 7]], ((3, 1), (1, 1))
    assert run("pool", x, chunks=chunks, pooling="mean") == [[3, 4], [7, 7]]
    assert run("pool", x, chunks=chunks, pooling="cls") == [[1, 8], [7, 7]]
    assert run("pool", x, chunks=chunks, pooling="last") == [[5, 0], [7, 7]]


def test_segments_begin_behind_the_separator():
    table = [[5.0, 6.0], [7.0, 8.0]]
    rows = run("segments", weights=[table], width=2, chunks=((4, 1), (3, 1)), separator=1, count=2)  # ids 0, 1, 2 ...
    assert rows == [table[0], table[0], table[1], table[1], table[0], table[0], table[1]]
    assert run("segments", weights=[table[:1]], width=2, chunks=((3, 1),), separator=1, count=1) == [table[0]] * 3
