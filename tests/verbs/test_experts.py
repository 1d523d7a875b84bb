"""Verbs of a mixture of experts."""

import numpy as np
import pytest

from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.verbs.experts import Router
from tests import tiny


def test_a_choice_is_numbers_and_weights(builder, tensors):
    b = builder(tensors(probs__bias=(8,)))
    scores = b.split(b.embed(), 0, 8)
    assert b.route(scores, Router(used=3, bias="probs.bias")).width == 6
    assert b.ops[-1].weights == ("probs.bias",) and "bias" not in b.ops[-1].attrs


def test_a_table_assigns_experts_that_there_are(builder):
    numbers = np.arange(3 * tiny.VOCAB, dtype=np.int32).reshape(-1, 3) % 8

    def table(keys, held):
        held["ids.weight"] = (numbers, "I32")

    b = builder(table)
    assert b.assign(b.split(b.embed(), 0, 8), "ids", Router(3)).width == 6 and b.ops[-1].weights == ("ids.weight",)
    with pytest.raises(FormatError, match="ids.weight is 300 x 3, must be 300 x 2"):
        b.assign(b.split(b.embed(), 0, 8), "ids", Router(2))
    for wrong in (8, -1):
        numbers[7, 1] = wrong
        b = builder(table)
        with pytest.raises(FormatError, match=f"do not fit together: tensor ids.weight with {wrong} of 8"):
            b.assign(b.split(b.embed(), 0, 8), "ids", Router(3))


def test_a_table_of_experts_holds_whole_numbers(builder, tensors):
    b = builder(tensors(ids__weight=(300, 3)))
    with pytest.raises(FormatError, match="tensor ids.weight is F32, must be I32"):
        b.assign(b.split(b.embed(), 0, 8), "ids", Router(3))


@pytest.mark.parametrize("router", [Router(0), Router(9), Router(2, groups=3), Router(2, groups=2, groups_used=3)])
def test_routers_that_do_not_fit_are_named(builder, router):
    b = builder()
    with pytest.raises(FormatError, match="do not fit together: route"):
        b.route(b.split(b.embed(), 0, 8), router)


def test_widths_of_experts(builder, tensors):
    b = builder(tensors(up__weight=(8, 24, 64), up__bias=(8, 24), down__weight=(8, 64, 24), scale__scale=(8,)))
    x = b.embed()
    choice = b.route(b.split(x, 0, 8), Router(3))
    up = b.expert_linear(x, choice, "up", 8, 24)
    assert up.width == 3 * 24 and b.ops[-1].weights == ("up.weight", "up.bias")
    down = b.expert_linear(up, choice, "down", 8, 64, each=True)
    assert down.width == 3 * 64 and b.pick(choice, "scale.scale", 8).width == 3
    assert b.mix(down, b.split(choice, 3, 3), 3).width == 64
    with pytest.raises(FormatError, match="do not fit together: mix"):
        b.mix(x, choice, 3)


def test_a_group_is_chosen_with_the_weight_of_its_expert(builder):
    b = builder()
    choice = b.route(b.split(b.embed(), 0, 8), Router(3))
    assert b.group(choice, 8, 4).width == 6
    with pytest.raises(FormatError, match="do not fit together: group of 3 of 8 experts"):
        b.group(choice, 8, 3)


def test_each_expert_s_scale_multiplies_what_it_gives(builder, tensors):
    scaled = tensors(
        up__weight=(8, 24, 64), up__scale=(8,), down__weight=(8, 64, 24), down__scale=(8,), down__bias=(8, 64)
    )
    b = builder(scaled)
    x = b.embed()
    choice = b.route(b.split(x, 0, 8), Router(3))
    up = b.expert_linear(x, choice, "up", 8, 24)
    assert up.width == 3 * 24 and [op.kind for op in b.ops[-3:]] == ["expert_linear", "pick", "mul"]
    b.expert_linear(up, choice, "down", 8, 64, each=True)
    assert b.ops[-1].kind == "expert_linear"  # with a bias besides: then `finish` names the scale
    list(b.layers(0))  # known are those of all layers
    b.ignore("output", "output_norm")
    with pytest.raises(UnsupportedError, match="no use for tensor .*down.scale"):
        b.finish()
