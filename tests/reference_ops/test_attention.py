"""Rotation, temperature and attention against numbers worked out by hand."""

import math

import numpy as np
import pytest

from edgeinfer.backend import Chunk
from edgeinfer.plan import Op, Value
from edgeinfer.reference_ops import OPS
from edgeinfer.reference_ops.step import Held, Step, Weights
from edgeinfer.rope import Rope
from tests.reference_ops.one_op import run


def test_rope_turns_adjacent_pairs_or_halves_and_passes_the_rest():
    # at position 1 the first pair turns a quarter, the second a half
    for pairs, x, turned in (
        ("adjacent", [1, 2, 3, 4, 5], [-2, 1, -3, -4, 5]),
        ("halves", [1, 2, 3, 4, 5], [-3, -2, 1, -4, 5]),
    ):
        rope = Rope((math.pi / 2, math.pi), 1.0, pairs)
        first, second = run("rope", [x, x], chunks=((2, 0),), rope=rope, head_dim=5, start=0)
        assert first == x and second == pytest.approx(turned, abs=1e-6)


def test_positions_of_a_pool_turn_as_its_first_does():
    rope = Rope((math.pi / 2,), 1.0, "halves", stride=2)
    out = run("rope", [[1, 0]] * 4, chunks=((4, 0),), rope=rope, head_dim=2, start=0)
    assert np.allclose(out, [[1, 0], [1, 0], [-1, 0], [-1, 0]], atol=1e-6)


def test_rope_scale_lengthens_only_what_turns():
    rope = Rope((1.0,), 2.0, "halves")
    assert run("rope", [[1, 2, 3, 4, 5, 6]], rope=rope, head_dim=3, start=0) == [[2, 4, 3, 8, 10, 6]]


SCORES = {"window": 0, "chunk": 0, "scale": 1.0, "cap": 0.0, "slopes": (), "buckets": (), "causal": True}
SCORES |= {"stride": 1, "logs": False}
PLAIN = {**SCORES, "layer": 0, "text": False, "heads": 1, "kv_heads": 1, "key_dim": 1, "value_dim": 1}


def attend(q, k, v, **attrs):
    sizes = PLAIN | attrs
    width = sizes["heads"] * (sizes["value_dim"] + sizes["logs"])
    return run("attend", q, k, v, width=width, chunks=((len(q), 0),), **sizes)


def test_attention_weighs_values_by_softmax_and_sees_no_future():
    log = math.log(3)  # scores 0 and ln 3: weights 1/4 and 3/4
    assert attend([[1], [1]], [[0], [log]], [[8], [4]]) == pytest.approx(np.array([[8], [5]]))
    assert attend([[2], [2]], [[0], [log]], [[8], [4]], scale=0.5) == pytest.approx(np.array([[8], [5]]))


def test_of_pools_the_last_position_is_seen_by_those_from_it_on():
    x = [[0]] * 6
    assert attend(x, x, [[8], [4], [2], [6], [1], [3]], stride=2) == [[0], [4], [4], [5], [5], [pytest.approx(13 / 3)]]


def test_logarithms_of_sums_stand_behind_and_are_those_of_nothing_where_nothing_is_seen():
    log = math.log(3)
    out = attend([[1], [1], [1]], [[9], [0], [log]], [[8], [4], [2]], stride=2, logs=True)
    assert out == [[0, -math.inf], [4, 0], [4, 0]]
    first, last = attend([[1], [1]], [[0], [log]], [[8], [4]], logs=True)
    assert first == [8, 0] and last == pytest.approx([5, math.log(4)])


def test_scores_of_pools_are_those_of_their_last_positions():
    sizes = {"layer": -1, "heads": 1, "stride": 2}
    one = [[1]] * 5
    scores = run("rate", one, [[7], [2], [7], [3], [7]], one, width=4, chunks=((5, 0),), **sizes)
    none = -math.inf
    assert scores == [[none] * 4, [2, none, none, none], [2, none, none, none]] + [[2, 3, none, none]] * 2


def test_a_window_forgets_what_lies_its_length_behind():
    x = [[0]] * 4
    assert attend(x, x, [[8], [4], [2], [0]], window=2) == [[8], [6], [3], [1]]


def test_heads_of_a_group_share_keys_and_values():
    q, k, v = [[0, 0, 0, 0]], [[0, 0]], [[1, 2, 3, 4]]
    assert attend(q, k, v, heads=4, kv_heads=2, value_dim=2) == [[1, 2, 1, 2, 3, 4, 3, 4]]


def test_large_positions_turn_exactly():
    # a whole turn in 8 positions: position 80,001 is position 1
    rope = Rope((math.pi / 4,), 1.0, "halves")
    op = Op("rope", Value(1, 2), (Value(0, 2),), (), {"rope": rope, "head_dim": 2, "start": 0})
    far = Step(Weights({}), [Chunk(0, [0], 1)], [Held(length=80_001)])
    assert OPS["rope"](op, far, np.array([[1, 0]], np.float32)) == pytest.approx(np.array([[0.5**0.5] * 2]), abs=1e-6)


def test_rope_may_begin_inside_a_head():
    rope = Rope((math.pi / 2,), 1.0, "halves")
    first, second = run("rope", [[9, 1, 2, 8, 3, 4]] * 2, chunks=((2, 0),), rope=rope, head_dim=3, start=1)
    assert first == [9, 1, 2, 8, 3, 4] and second == pytest.approx([9, -2, 1, 8, -4, 3], abs=1e-6)


def test_temper_grows_with_every_full_floor_of_positions():
    held = [Held(length=5)]  # positions 5 and 6, with offset 1: 6 / 7 and 7 / 7
    first, second = run("temper", [[2], [2]], chunks=((2, 0),), held=held, scale=0.5, floor=7, offset=1)
    assert first == [2] and second == pytest.approx([2 * (1 + 0.5 * math.log(2))])


def test_a_cap_bends_scores():
    capped = math.tanh(3)  # of the score 3 with cap 1: weights e^0 to e^tanh(3)
    share = math.exp(capped) / (1 + math.exp(capped))
    assert attend([[1], [1]], [[0], [3]], [[0], [8]], cap=1.0)[1] == pytest.approx([8 * share])


def test_slopes_lower_the_scores_of_what_lies_behind():
    share = 1 / (1 + math.exp(-0.5))  # of the newest of two equal keys, the other one position behind
    assert attend([[0], [0]], [[0], [0]], [[0], [8]], slopes=(0.5,))[1] == pytest.approx([8 * share])


def test_a_chunk_sees_nothing_of_the_one_before():
    x = [[0]] * 5
    assert attend(x, x, [[8], [4], [2], [0], [6]], chunk=2) == [[8], [6], [2], [1], [6]]


def test_without_causality_what_follows_is_seen_as_far_as_the_window():
    x = [[0]] * 4
    assert attend(x, x, [[8], [4], [2], [0]], causal=False) == [[3.5]] * 4
    assert attend(x, x, [[8], [4], [3], [2]], causal=False, window=2) == [[6], [5], [3], [2.5]]


def test_slopes_count_the_distance_of_what_follows():
    share = 1 / (1 + math.exp(-0.5))  # of a token itself, the other one position away
    both = attend([[0], [0]], [[0], [0]], [[0], [8]], slopes=(0.5,), causal=False)
    assert both == pytest.approx(np.array([[8 * (1 - share)], [8 * share]]))


def test_biases_go_by_the_bucket_of_a_distance():
    q = [[0]] * 3
    sized = {**SCORES, "layer": 0, "causal": False, "text": False}
    sized |= {"heads": 1, "kv_heads": 1, "key_dim": 1, "value_dim": 1, "buckets": (2, 0, 1)}  # ahead, itself, behind
    biases = [[[0], [math.log(2)], [math.log(3)]]]
    wanted = [[(1 * 6 + 3 * 12 + 3 * 24) / 7], [(2 * 6 + 1 * 12 + 3 * 24) / 6], [(2 * 6 + 2 * 12 + 1 * 24) / 5]]
    found = run("attend", q, q, [[6], [12], [24]], weights=biases, chunks=((3, 0),), **sized)
    assert found == pytest.approx(np.array(wanted))


def test_a_text_is_stored_whole_and_seen_whole_by_those_who_answer_it():
    held = [Held(), Held()]
    sizes = {"layer": 2, "kv_heads": 1, "key_dim": 1, "value_dim": 1}
    keys, values = [[0], [math.log(3)], [0]], [[8], [4], [7]]
    assert run("store", keys, values, chunks=((2, 0), (1, 0)), held=held, **sizes) == [[], [], []]
    answers = {**sizes, **SCORES, "heads": 1, "text": True, "width": 1}
    found = run("attend", [[1], [0], [1], [1]], chunks=((3, 0), (1, 0)), held=held, **answers)
    assert found == pytest.approx(np.array([[5], [6], [5], [7]]))
    assert held[0].cut(0).text == held[0].text and not held[0].rows


def test_sinks_take_weight_and_give_nothing():
    x = [[0]]
    assert run("attend", x, x, [[8]], weights=[[math.log(3)]], **PLAIN) == pytest.approx(np.array([[2]]))


def test_without_keys_attention_is_over_those_of_an_earlier_op():
    sized = PLAIN | {"layer": 3}
    held = [Held()]
    assert run("attend", [[0]], [[0]], [[8]], held=held, **sized) == [[8]]
    assert run("attend", [[1]], held=held, **sized) == [[8]]


def test_positions_are_rated_by_heads_whose_products_are_not_below_zero():
    q, k, w = [[1, 10], [1, -1]], [[2], [3]], [[1, 0.5], [1, 7]]  # two heads of one dim
    scores = run("rate", q, k, w, width=16, chunks=((2, 0),), layer=-1, heads=2, stride=1)
    each = run("rate", q, k, width=32, chunks=((2, 0),), layer=-1, heads=2, stride=1)
    assert [row[0] for row in each] == [2, 2] and [row[16] for row in each] == [20, -2] and each[1][17] == -3
    assert scores[0][0] == 1 * 2 + 0.5 * 20 and scores[1][:2] == [2, 3]
    assert set(scores[0][1:] + scores[1][2:]) == {-math.inf}


def test_the_best_positions_are_bits_and_the_first_of_equal_ones_is_taken():
    scores = [[3, 1, 3, 3] + [0] * 28, [0] * 17 + [5] + [0] * 14]
    single = {"width": 2, "chunks": ((2, 0),), "sets": 1, "block": 1, "local": 0, "pooled": False, "stride": 1}
    assert run("choose", scores, count=2, **single) == [[1 + 4, 0], [1, 2]]


def test_the_best_blocks_are_chosen_and_the_last_ones():
    scores = [[0] * 30 + [1, 0] + [2] * 16] * 40  # blocks of 16: 0, 1, 2
    chosen = run(
        "choose", scores, width=3, count=2, chunks=((40, 0),), sets=1, block=16, local=1, pooled=False, stride=1
    )
    every = 2**16 - 1
    assert chosen[5] == [every, 0, every] and chosen[20] == [0, every, every]  # what lies behind is not attended to


def test_the_best_whole_pools_are_chosen_by_their_last_positions_and_all_of_the_last_one():
    every = [9, 1, 9, 2, 9, 0, 9]  # pools of 2: 1, 2, 0, and one that lacks its end
    scores = [every[: row + 1] + [-math.inf] * (15 - row) for row in range(7)]
    chosen = run("choose", scores, width=1, count=1, chunks=((7, 0),), sets=1, block=2, local=0, pooled=True, stride=1)
    seen = [int(number) & (1 << row + 1) - 1 for row, (number,) in enumerate(chosen)]
    assert seen[0] == 0b1 and seen[2] == 0b111 and seen[3] == 0b1100 and seen[5] == 0b1100 and seen[6] == 0b1001100


def test_each_kv_head_attends_to_its_own_positions():
    q, k, v, seen = [[0, 0], [0, 0]], [[0, 0], [0, 0]], [[1, 2], [3, 4]], [[1, 1], [2, 1 + 2]]
    sizes = {"heads": 2, "kv_heads": 2, "key_dim": 1, "value_dim": 1, "sets": 2}
    assert run("attend", q, k, v, seen, chunks=((2, 0),), **PLAIN | sizes) == [[1, 2], [3, 3]]


def test_attention_to_chosen_positions_only():
    q, k, v, seen = [[0], [0], [0]], [[0], [0], [0]], [[1], [2], [9]], [[1], [1 + 2], [2 + 4]]
    sizes = {"heads": 1, "kv_heads": 1, "key_dim": 1, "value_dim": 1, "sets": 1}
    assert run("attend", q, k, v, seen, chunks=((3, 0),), **PLAIN | sizes) == [[1], [1.5], [5.5]]
