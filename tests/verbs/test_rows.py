"""Verbs on single rows: the shapes of what they use and make."""

import pytest

from edgeinfer.errors import FormatError, UnsupportedError


def test_norms_take_one_vector_or_one_for_each_group(builder, tensors):
    b = builder(tensors(one__weight=(16,), all__weight=(64,), rows__weight=(4, 16), odd__weight=(5,)))
    x = b.embed()
    for name in ("one", "all", "rows"):
        assert b.norm(x, name, 16).width == 64
    with pytest.raises(FormatError, match="tensor odd.weight is 5, must be 16"):
        b.norm(x, "odd", 16)
    assert b.ops[-1].attrs == {"eps": b.config.eps, "size": 16}
    assert b.layer_norm(x, None, eps=0.5).width == 64 and b.ops[-1].weights == () and b.ops[-1].attrs["eps"] == 0.5


def test_a_layer_norm_has_a_bias_where_the_file_does(builder, tensors):
    b = builder(tensors(a__weight=(64,), a__bias=(64,), b__weight=(64,)))
    x = b.embed()
    b.layer_norm(x, "a")
    assert b.ops[-1].weights == ("a.weight", "a.bias")
    b.layer_norm(x, "b")
    assert b.ops[-1].weights == ("b.weight",)


def test_a_linear_layer_one_wide_may_be_a_vector(builder, tensors):
    b = builder(tensors(gate__weight=(64,), low__weight=(64, 64), base__weight=(64,)))
    x = b.embed()
    assert b.linear(x, "gate", 1).width == 1
    b.linear(x, "low", 64, bias="base")
    assert b.ops[-1].weights == ("low.weight", "base.weight")


def test_a_matrix_with_a_scale_is_multiplied_before_the_bias_is_added(builder, tensors):
    given = {"a__weight": (8, 64), "a__bias": (8,), "a__scale": (1,), "a__input_scale": (1,)}
    b = builder(tensors(**given, c__weight=(8, 64), c__scale=(1,), other__weight=(8,)))
    b.linear(b.embed(), "a", 8)
    assert [(op.kind, op.weights) for op in b.ops[1:]] == [
        ("linear", ("a.weight",)),
        ("times", ("a.scale",)),
        ("plus", ("a.bias",)),
    ]
    b.linear(b.embed(), "c", 8, bias="other")
    assert [op.weights for op in b.ops[-3:]] == [("c.weight",), ("c.scale",), ("other.weight",)]


def test_numbers_of_another_count_are_no_scale_of_a_matrix(builder, tensors):
    b = builder(tensors(a__weight=(8, 64), a__scale=(64,)))
    b.linear(b.embed(), "a", 8)
    assert b.ops[-1].kind == "linear"
    list(b.layers(0))  # known are those of all layers
    b.ignore("output", "output_norm")
    with pytest.raises(UnsupportedError, match="no use for tensor .*a.scale"):
        b.finish()


def test_widths_of_parts(builder, tensors):
    b = builder(tensors(heads__weight=(4, 8, 16)))
    x = b.embed()
    assert b.head_linear(x, "heads", 4, 8).width == 32
    assert b.split(x, 4, 8, 16).width == 32
    assert b.join(x, b.split(x, 0, 4), groups=4).width == 68
    assert b.repeat(x, 3, 16).width == 192
    assert b.mul(x, b.split(x, 0, 4)).width == 64 and b.dot(x, x, 4).width == 4


def test_softmax_and_fill(builder):
    b = builder()
    x = b.embed()
    assert b.softmax(x).width == 64 and b.ops[-1].attrs == {"size": 64}
    assert b.fill(x, [1.0, 2.0]).width == 2 and b.ops[-1].attrs == {"numbers": (1.0, 2.0)}
    assert b.sinkhorn(x, 8, 20, 1e-6).width == 64 and b.ops[-1].attrs == {"side": 8, "turns": 20, "eps": 1e-6}
    with pytest.raises(FormatError, match="sinkhorn of 4 rows of 64"):
        b.sinkhorn(x, 4, 20, 1e-6)
    with pytest.raises(FormatError, match="softmax over 5 of 64"):
        b.softmax(x, 5)


def test_some_ids_may_be_embedded_as_others_and_marked(builder):
    b = builder()
    assert b.embed(instead={299: 0}).width == 64 and b.ops[-1].attrs["instead"] == ((299, 0),)
    assert b.marks({299: 1.0}, 0.0).width == 1
    for ids in ({300: 0}, {0: 300}, {-1: 0}):
        with pytest.raises(FormatError, match="do not fit together: ids of 300 tokens"):
            b.embed(instead=ids)
    with pytest.raises(FormatError, match="do not fit together: marks of 300 tokens"):
        b.marks({300: 1.0}, 0.0)


def test_positions_must_reach_as_far_as_the_context(builder, tensors):
    edit = tensors(position_embd__weight=(256, 64))
    assert builder(edit).positions("position_embd").width == 64
    with pytest.raises(UnsupportedError, match="position_embd has 256 positions, fewer than a context of 300"):
        builder(edit, n_ctx=300).positions("position_embd")


def test_scaling_by_one_and_a_cap_of_zero_are_nothing(builder):
    b = builder()
    x = b.embed()
    assert b.scale(x, 1.0) is b.softcap(x, 0.0) is x and b.scale(x, 2.0) is not x


WRONG = {
    "add": lambda b, x: b.add(x, b.split(x, 0, 3)),
    "mul": lambda b, x: b.mul(x, b.split(x, 0, 3)),
    "dot": lambda b, x: b.dot(x, x, 5),
    "split": lambda b, x: b.split(x, 10, 8, 16),
    "join": lambda b, x: b.join(x, b.split(x, 0, 3), groups=4),
    "repeat": lambda b, x: b.repeat(x, 2, 5),
    "norm": lambda b, x: b.norm(x, None, 5),
    "head_linear": lambda b, x: b.head_linear(x, "output", 5, 1),
    "gated": lambda b, x: b.gated(x, b.split(x, 0, 3), "silu"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_widths_that_do_not_fit_are_named(builder, wrong):
    b = builder()
    with pytest.raises(FormatError, match="do not fit together"):
        wrong(b, b.embed())


def test_segments_are_told_apart_by_bert_s_separator_alone(builder, tensors):
    def edit(model, **more):
        def change(keys, held):
            tensors(types__weight=(2, 64))(keys, held)
            keys.update({"tokenizer.ggml.model": model, "tokenizer.ggml.token_type_count": 2} | more)

        return change

    for change, separator in (
        (edit("bert"), 102),
        (edit("bert", **{"tokenizer.ggml.seperator_token_id": 7}), 7),
        (edit("t5", **{"tokenizer.ggml.seperator_token_id": 7}), -1),
    ):
        b = builder(change)
        assert b.segments("types").width == 64
        assert b.ops[-1].attrs == {"separator": separator, "count": 2}
    with pytest.raises(FormatError, match="tensor types.weight is 2 x 64, must be 3 x 64"):
        builder(edit("bert", **{"tokenizer.ggml.token_type_count": 3})).segments("types")


def test_rows_that_will_be_pooled_are_all_wanted(builder):
    b = builder()
    x = b.embed()
    assert b.outputs(x) != x and b.pool(x, "mean").width == 64
    b.pools = True
    assert b.outputs(x) == x
    with pytest.raises(FormatError, match="pooling max"):
        b.pool(x, "max")
