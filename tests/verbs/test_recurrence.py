"""Verbs that remember: the shapes of what they use."""

import pytest

from edgeinfer.errors import FormatError


def test_condense_has_numbers_for_each_place_of_a_pool(builder, tensors):
    b = builder(tensors(ape__weight=(4, 64)))
    x = b.embed()
    assert b.condense(x, x, "ape", 4).width == 64 and b.ops[-1].weights == ("ape.weight",)
    with pytest.raises(FormatError, match="ape.weight is 4 x 64, must be 5 x 64"):
        b.condense(x, x, "ape", 5)
    with pytest.raises(FormatError, match="condense 64, 32"):
        b.condense(x, b.split(x, 0, 32), "ape", 4)


def test_half_of_what_overlaps_is_for_the_pool_after(builder, tensors):
    b = builder(tensors(ape__weight=(4, 64)))
    x = b.embed()
    assert b.overlap(x, x, "ape", 4).width == 32 and b.ops[-1].weights == ("ape.weight",)
    with pytest.raises(FormatError, match="overlap 64, 32"):
        b.overlap(x, b.split(x, 0, 32), "ape", 4)


def test_conv_has_a_kernel_for_each_column(builder, tensors):
    b = builder(tensors(conv__weight=(64, 4), conv__bias=(64,)))
    assert b.conv(b.embed(), "conv", 4).width == 64
    assert b.ops[-1].weights == ("conv.weight", "conv.bias")
    with pytest.raises(FormatError, match="conv.weight is 64 x 4, must be 64 x 3"):
        b.conv(b.embed(), "conv", 3)


@pytest.mark.parametrize("decays", [1, 3])
def test_ssm_has_one_decay_or_one_for_each_number_of_the_state(builder, tensors, decays):
    b = builder(tensors(ssm_a=(4, decays), ssm_d=(4, 1)))
    x = b.embed()
    into = b.split(x, 0, 6)
    assert b.ssm(x, b.split(x, 0, 4), into, into, state=3, groups=2).width == 64
    with pytest.raises(FormatError, match="do not fit together: ssm"):
        b.ssm(x, b.split(x, 0, 4), into, into, state=3, groups=1)


def test_wkv_and_delta_have_heads_of_one_size(builder, tensors):
    b = builder(tensors(first__weight=(4, 16)))
    x = b.embed()
    narrow = b.split(x, 0, 32)
    assert b.wkv(x, x, x, x, "first", 4).width == 64
    assert b.delta(x, x, narrow, x, x, x, 4).width == 32
    for wrong in (lambda: b.wkv(x, x, narrow, x, "first", 4), lambda: b.delta(x, narrow, x, x, x, x, 4)):
        with pytest.raises(FormatError, match="do not fit together"):
            wrong()
