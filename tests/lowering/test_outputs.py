"""Rows without logits are left out as soon as may be: the same logits by the reference, of a shorter list of ops."""

import dataclasses

import numpy as np
import pytest

from edgeinfer import plan
from edgeinfer.backend import Chunk
from edgeinfer.formats import gguf
from edgeinfer.lowering.outputs import MEETS_OTHERS, early
from edgeinfer.op import Op, Value
from edgeinfer.reference import ReferenceBackend
from edgeinfer.reference_ops import OPS
from tests import tiny

KIT = ["deepseek2-mla", "gpt-oss", "jamba", "qwen3next", "rwkv6", "rwkv7"]


def kinds(ops):
    return [op.kind for op in ops]


def test_of_the_last_layer_attention_alone_sees_all_rows(tmp_path):
    traced = plan.trace(gguf.open(tiny.write(tmp_path / "m.gguf")))
    behind = "linear add norm linear linear gated linear add norm linear".split()
    assert kinds(early(traced.ops))[-13:] == ["attend", "outputs", "outputs", *behind]  # its output, and the residual


def logits(traced, ops):
    backend = ReferenceBackend(dataclasses.replace(traced, ops=tuple(ops)), 64, 16, 2)
    backend.open(), backend.open()
    out = np.zeros((3, backend.n_vocab), np.float32)
    backend.step([Chunk(0, [3, 1, 4, 1, 5], 0)], out[:0])
    backend.step([Chunk(1, [2, 7, 1], 1), Chunk(0, [8, 2, 8], 2)], out)
    return out


@pytest.mark.parametrize("name", KIT)
def test_the_logits_are_the_same(shared, name):
    traced = plan.trace(gguf.open(shared / "kit" / "arch" / f"{name}.gguf"))
    ops = early(traced.ops)
    assert kinds(ops).index("outputs") < kinds(traced.ops).index("outputs")
    assert np.allclose(logits(traced, ops), logits(traced, traced.ops), rtol=1e-4, atol=1e-5)


def test_every_op_kind_that_does_each_row_on_its_own_may_follow():
    """So that a new kind is not taken for one: what is told of rows, and what sees several, is named."""
    alone = (
        "norm layer_norm l2_norm softmax sinkhorn linear head_linear activate gated split join repeat fill add mul plus"
    )
    rest = "times dot sparsify scale clamp softcap route expert_linear pick group mix outputs pool"
    assert sorted(OPS) == sorted([*alone.split(), *rest.split(), *MEETS_OTHERS])


def test_where_nothing_can_be_left_out_earlier():
    x, y = Value(0, 4), Value(1, 4)
    ops = [Op("embed", x), Op("outputs", y, (x,)), Op("norm", Value(2, 4), (y,))]
    assert kinds(early(ops)) == kinds(ops)
    pooled = [Op("embed", x), Op("pool", y, (x,))]
    assert early(pooled) == pooled
