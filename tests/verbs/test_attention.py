"""Verbs of attention: sizes that come from widths, and slopes."""

import pytest

from edgeinfer.errors import FormatError
from edgeinfer.rope import Rope
from edgeinfer.verbs.attention import Scores, alibi_slopes, t5_buckets


def test_slopes_are_a_geometric_series_and_a_finer_one_for_the_rest():
    assert alibi_slopes(4, 8.0) == (1 / 4, 1 / 16, 1 / 64, 1 / 256)
    assert alibi_slopes(6, 8.0) == pytest.approx((1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8))
    assert alibi_slopes(4, 0.0) == ()


def test_buckets_are_single_distances_and_then_powers():
    buckets = t5_buckets(32, causal=False)
    behind, ahead = buckets[128:], buckets[128::-1]
    assert behind[:8] == (*range(8),) and ahead[1:8] == (*range(17, 24),)
    starts = [behind.index(bucket) for bucket in range(8, 16)]  # of the others, 8 * 16 ** (i / 8)
    assert starts == [8, 12, 16, 23, 32, 46, 64, 91] and behind[128] == 15 and ahead[128] == 31
    assert [16 + bucket for bucket in behind[1:]] == [*ahead[1:]]


def test_buckets_of_those_who_look_back_only_are_all_behind():
    buckets = t5_buckets(32, causal=True)
    behind = buckets[128:]
    assert behind[:16] == (*range(16),) and set(buckets[:128]) == {0} and len(buckets) == 257
    starts = [behind.index(bucket) for bucket in range(16, 32)]  # 16 * 8 ** (i / 16)
    assert starts == [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113] and behind[128] == 31


def test_an_answer_attends_to_what_was_stored_of_a_text(builder):
    b = builder()
    x = b.embed()
    b.store(b.split(x, 0, 32), b.split(x, 0, 48), 3)
    assert b.ops[-1].out.width == 0 and b.ops[-1].caches
    b.answer(x)
    assert [op.kind for op in b.reader][-2:] == ["store", "outputs"] and not b.ops
    q = b.embed()
    assert b.attend(q, None, None, 3, text=True).width == 4 * 24
    assert {"kv_heads": 2, "key_dim": 16, "value_dim": 24, "text": True}.items() <= b.ops[-1].attrs.items()
    with pytest.raises(FormatError, match="do not fit together: attend over the K and V of layer 0"):
        b.attend(q, None, None, 0, text=True)
    with pytest.raises(FormatError, match="do not fit together: K and V of 24, 32 to store"):
        b.store(b.split(q, 0, 24), b.split(q, 0, 32), 4)


def test_layers_without_biases_have_those_before(builder, tensors):
    def edit(keys, held):
        keys["llama.attention.relative_buckets_count"] = 32
        tensors(blk__0__rel__weight=(32, 4))(keys, held)

    b = builder(edit)
    q = b.embed()
    for layer in b.layers():
        b.attend(q, q, q, layer, scores=Scores(biases="rel"))
        assert b.ops[-1].weights == ("blk.0.rel.weight",) and len(b.ops[-1].attrs["buckets"]) == 257


def test_rope_turns_nothing_before_a_head(builder):
    b = builder()
    with pytest.raises(FormatError, match="do not fit together: rope of 64 from -8 on"):
        b.rope(b.embed(), Rope((1.0,), 1.0, "halves"), 16, -8)


def test_pools_have_fewer_scores_and_are_told_apart(builder):
    b = builder(n_ctx=1000)
    x = b.embed()
    scores = b.rate(x, b.split(x, 0, 32), b.split(x, 0, 2), 0, stride=4)
    seen = b.choose(scores, 3, stride=4)
    assert scores.width == 256 and seen.width == 16
    assert b.attend(x, x, x, 9, seen=seen, stride=4, logs=True).width == 4 * (16 + 1)
    with pytest.raises(FormatError, match="do not fit together: attend to positions of 16 numbers"):
        b.attend(x, x, x, 9, seen=seen)


def test_heads_of_k_and_v_come_from_their_widths(builder):
    b = builder()
    q = b.embed()
    k, v = b.split(q, 0, 16), b.split(q, 0, 24)
    assert b.attend(q, k, v, 0).width == 4 * 24
    sizes = {"heads": 4, "kv_heads": 1, "key_dim": 16, "value_dim": 24, "scale": 0.25}
    assert sizes.items() <= b.ops[-1].attrs.items()


def test_attention_may_be_over_an_earlier_layer(builder):
    b = builder()
    q = b.embed()
    b.attend(q, b.split(q, 0, 32), b.split(q, 0, 32), 0)
    again = b.attend(q, None, None, 0, window=8)
    assert again.width == 64 and b.ops[-1].ins == (q,) and b.ops[-1].attrs["window"] == 8
    with pytest.raises(FormatError, match="do not fit together: attend"):
        b.attend(q, None, None, 1)


def test_sinks_are_one_for_each_head(builder, tensors):
    b = builder(tensors(sinks__weight=(4,)))
    q = b.embed()
    b.attend(q, q, q, 0, scores=Scores(sinks="sinks", max_bias=8.0))
    assert b.ops[-1].weights == ("sinks.weight",) and len(b.ops[-1].attrs["slopes"]) == 4


def test_attention_is_causal_but_where_the_architecture_or_the_file_says_otherwise(builder):
    for b, scores, causal in (
        (builder(), Scores(), True),
        (builder(), Scores(causal=False), False),
        (builder(lambda keys, held: keys.update({"llama.attention.causal": False})), Scores(), False),
    ):
        q = b.embed()
        b.attend(q, q, q, 0, scores=scores)
        assert b.ops[-1].attrs["causal"] == causal


def test_positions_are_rated_chosen_and_attended_to(builder):
    b = builder(n_ctx=300)
    x = b.embed()
    scores = b.rate(x, b.split(x, 0, 16), b.split(x, 0, 4), 2)
    assert scores.width == 512 and b.ops[-1].attrs["layer"] == -3 and b.ops[-1].caches
    seen = b.choose(scores, 8)
    assert seen.width == 32 and b.attend(x, x, x, 2, seen=seen).width == 64 and b.ops[-1].ins == (x, x, x, seen)
    each = b.choose(b.rate(x, b.split(x, 0, 16), None, 2), 2, 16, 1)
    assert each.width == 128 and b.attend(x, x, x, 2, seen=each).width == 64
    assert b.ops[-1].attrs["sets"] == b.ops[-2].attrs["sets"] == 4
    with pytest.raises(FormatError, match="attend to positions of 96 numbers"):
        b.attend(x, b.split(x, 0, 32), b.split(x, 0, 32), 2, seen=b.split(each, 0, 96))
    with pytest.raises(FormatError, match="choose 2 blocks of 48 positions"):
        b.choose(scores, 2, 48)
    with pytest.raises(FormatError, match="rate of 64, 16"):
        b.rate(x, b.split(x, 0, 16), b.split(x, 0, 16), 2)


@pytest.mark.parametrize("widths", [(60, 32, 32), (64, 8, 32), (64, 48, 48), (64, 32, 33)])
def test_heads_that_do_not_fit_are_named(builder, widths):
    b = builder()
    q, k, v = (b.split(b.embed(), 0, width) for width in widths)
    with pytest.raises(FormatError, match="do not fit together: attend"):
        b.attend(q, k, v, 0)
