"""Compositions: what the file's tensors and keys decide."""

import pytest

from edgeinfer.errors import FormatError
from edgeinfer.verbs.experts import Router


def keys(**changes):
    def edit(held, tensors):
        held.update({f"llama.{key.replace('__', '.')}": value for key, value in changes.items()})

    return edit


def both(*edits):
    def edit(held, tensors):
        for one in edits:
            one(held, tensors)

    return edit


def kinds(b):
    return [op.kind for op in b.ops]


def test_qkv_may_be_stacked(builder, tensors):
    b = builder(tensors(attn_qkv__weight=(128, 64)))
    q, k, v = b.qkv(b.embed())
    assert (q.width, k.width, v.width) == (64, 32, 32) and kinds(b) == ["embed", "linear", "split", "split", "split"]
    assert [op.attrs["start"] for op in b.ops[-3:]] == [0, 64, 96]


def test_gate_and_up_may_be_stacked(builder, tensors):
    b = builder(tensors(ffn_up__weight=(192, 64), ffn_down__weight=(64, 96)))
    assert b.gated_mlp(b.embed(), "silu").width == 64
    assert kinds(b) == ["embed", "linear", "split", "split", "gated", "linear"]


def test_without_a_width_there_is_no_feed_forward(builder):
    b = builder(keys(feed_forward_length=0, expert_feed_forward_length=8))
    with pytest.raises(FormatError, match="llama.feed_forward_length is missing"):
        b.gated_mlp(b.embed(), "silu")


def test_the_router_is_what_the_keys_say(builder, tensors):
    plain = builder(keys(expert_count=8, expert_used_count=2))
    assert plain.router() == Router(2) and plain.router("sigmoid", True) == Router(2, "sigmoid", normalise=True)
    stated = {"expert_gating_func": 2, "expert_weights_norm": True, "expert_weights_scale": 2.5}
    groups = {"expert_group_count": 4, "expert_group_used_count": 2}
    edit = both(keys(expert_count=8, expert_used_count=3, **stated, **groups), tensors(exp_probs_b__bias=(8,)))
    assert builder(edit).router() == Router(3, "sigmoid", "exp_probs_b.bias", True, 2.5, 4, 2)


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"expert_used_count": 9}, "expert_used_count is 9, must be in 1..8"),
        ({"expert_gating_func": 7}, "expert_gating_func is 7, known are"),
        ({"expert_weights_scale": -1.0}, "expert_weights_scale is -1"),
    ],
)
def test_routers_that_cannot_be_are_named(builder, changes, text):
    b = builder(keys(**{"expert_count": 8, "expert_used_count": 2} | changes))
    with pytest.raises(FormatError, match=text):
        b.router()


EXPERTS = {"ffn_gate_inp__weight": (8, 64), "ffn_down_exps__weight": (8, 64, 24)}
NUMBERS = {"expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 24}


def test_experts_are_gated_fused_or_plain_as_the_tensors_are(builder, tensors):
    shapes = {"ffn_gate_exps__weight": (8, 24, 64), "ffn_up_exps__weight": (8, 24, 64)}
    for more, inner in (
        (shapes, ["expert_linear", "expert_linear", "gated"]),
        ({"ffn_gate_up_exps__weight": (8, 48, 64)}, ["expert_linear", "split", "split", "gated"]),
        ({"ffn_up_exps__weight": (8, 24, 64)}, ["expert_linear", "activate"]),
    ):
        b = builder(both(keys(**NUMBERS), tensors(**EXPERTS, **more)))
        assert b.experts(b.embed(), "silu", 24, b.router()).width == 64
        assert kinds(b) == ["embed", "linear", "route", *inner, "expert_linear", "split", "mix"]


def test_a_layer_without_a_router_is_dense_and_a_shared_expert_may_be_gated(builder, tensors):
    dense = builder(tensors(ffn_gate__weight=(96, 64), ffn_up__weight=(96, 64), ffn_down__weight=(64, 96)))
    dense.moe(dense.embed(), "silu")
    assert "route" not in kinds(dense)
    shapes = {"ffn_up_exps__weight": (8, 24, 64), "ffn_gate_inp_shexp__weight": (64,)}
    shapes |= {f"ffn_{name}_shexp__weight": (48, 64) for name in ("gate", "up")} | {"ffn_down_shexp__weight": (64, 48)}
    b = builder(both(keys(**NUMBERS, expert_shared_count=2), tensors(**EXPERTS, **shapes)))
    assert b.moe(b.embed(), "relu").width == 64
    assert kinds(b)[-6:] == ["gated", "linear", "linear", "activate", "mul", "add"]


def test_layers_with_windows_may_turn_fewer_dimensions(builder):
    def edit(keys, held):
        keys["llama.rope.dimension_count_swa"] = 8

    b = builder(edit)
    widths = [2 * len(rope.frequencies) for rope in (b.model_rope("halves"), b.model_rope("halves", local=True))]
    assert widths == [16, 8] and len(b.local_rope().frequencies) == 4
    with pytest.raises(FormatError, match="rope.dimension_count_swa is 8, must be in 0..4"):
        b.local_rope(head_dim=4)


def test_attention_to_several_kinds_of_keys_is_summed_by_the_sums_of_weights(builder):
    b = builder()
    x = b.embed()
    near, far = (b.attend(x, x, x, layer, logs=True) for layer in (0, 9))
    assert near.width == 4 * 17 and b.together(near, far).width == 64
    assert [op.kind for op in b.ops].count("softmax") == 1


def test_windows_by_pattern_or_period(builder):
    assert builder(keys(attention__sliding_window_pattern=[True, False])).sliding(1) == (True, False)
    assert builder(keys(attention__sliding_window_pattern=2), layers=4).sliding() == (True, False, True, False)
    assert builder(layers=4).sliding(3) == (True, True, False, True)
    assert builder(layers=2).sliding() == (True, True)


def test_k_and_v_are_shared_with_the_last_layer_of_the_kind(builder):
    b, kinds = builder(layers=5), (True, False, True, False, True)
    assert [b.shared_kv(layer, 3, kinds) for layer in range(5)] == [None, None, None, 1, 2]
    with pytest.raises(FormatError, match="layer 4 shares K and V, but no earlier layer is of its kind"):
        b.shared_kv(4, 1, (False, False, True, False, True))
