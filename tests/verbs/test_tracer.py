"""Names, layers and missing tensors."""

import pytest

from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.reference_ops import OPS
from edgeinfer.verbs.attention import Attention
from edgeinfer.verbs.experts import Experts
from edgeinfer.verbs.recurrence import Recurrence
from edgeinfer.verbs.rows import Rows


def test_every_verb_has_an_op():
    families = (Rows, Attention, Experts, Recurrence)
    verbs = {name for family in families for name in vars(family) if not name.startswith("_")}
    assert verbs == set(OPS)


def test_inside_a_layer_counts_are_its_own(builder):
    def edit(keys, tensors):
        keys["llama.feed_forward_length"] = [96, 64]

    b = builder(edit)
    assert b.config.ff_dim == 96
    assert [(layer, b.config.ff_dim) for layer in b.layers()] == [(0, 96), (1, 64)]
    assert b.config.ff_dim == 96


def test_layers_past_the_count_are_left_out(builder):
    b = builder()
    assert list(b.layers(1)) == [0]
    with pytest.raises(UnsupportedError, match="no use for tensor .*and 9 more") as raised:
        b.finish()  # nothing was used, but the tensors of layer 1 are not named
    assert "blk.1" not in str(raised.value)


def test_blocks_are_layers_of_the_file_by_number(builder):
    b = builder()
    assert [(block, b.has("attn_q")) for block in b.blocks(range(1, 2))] == [(1, True)]
    with pytest.raises(UnsupportedError, match="no use for tensor .*and 17 more"):
        b.finish()  # none of the others counts as left out


def test_ignored_tensors_may_be_there(builder, tensors):
    b = builder(tensors(blk__0__spare__weight=(3,)))
    for layer in b.layers():
        b.ignore("spare")
        assert b.has("spare") == (layer == 0)


def test_vectors_may_have_any_shape(builder, tensors):
    b = builder(tensors(blk__0__lerp__weight=(1, 4, 16), blk__0__one__scale=(1,), blk__0__few__weight=(3,)))
    x = b.embed()
    for layer in b.layers():
        if layer == 0:
            assert b.times(x, "lerp.weight").width == b.plus(x, "lerp.weight").width == 64
            assert b.times(x, "one.scale").width == 64
            with pytest.raises(FormatError, match="tensor blk.0.one.scale is 1, must be 64"):
                b.plus(x, "one.scale")
            assert b.rows("lerp") == 1 and b.rows("few") == 3 and b.rows("attn_q") == 64 and b.rows("none") == 1
            assert b.times(x, "lerp.weight", groups=2).width == 64
            with pytest.raises(FormatError, match="do not fit together: times of 64 in 3"):
                b.times(x, "few.weight", groups=3)
            with pytest.raises(FormatError, match="tensor blk.0.few.weight is 3, must be 64"):
                b.times(x, "few.weight")


@pytest.mark.parametrize("further", [0, 2])
def test_layers_that_predict_further_tokens_are_none_of_the_main_ones(builder, further):
    b = builder(lambda keys, tensors: keys.update({"llama.nextn_predict_layers": further}))
    assert b.main_layers == b.config.layers - further


def test_missing_tensors_are_collected(builder):
    b = builder()
    b.times(b.norm(b.embed(), "nothing"), "nowhere.scale")
    with pytest.raises(FormatError, match="no tensor nothing.weight, nowhere.scale"):
        b.finish()


@pytest.mark.parametrize("factor", [1e39, -1e39, float("inf"), float("nan")])
def test_a_number_beyond_32_bits_is_refused(builder, factor):
    b = builder()
    with pytest.raises(FormatError, match="scale with factor .*, which is no number of 32 bits"):
        b.scale(b.embed(), factor)
