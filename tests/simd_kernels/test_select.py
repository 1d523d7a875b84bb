"""The largest logits of the output layer against numpy: groups and rests, ties, numbers that are not finite."""

import numpy as np
import pytest

from edgeinfer.formats import dequantize
from edgeinfer.simd_kernels import record
from edgeinfer.simd_kernels.layout import GROUP, activation_bytes
from tests.blocks import random_rows
from tests.simd_kernels import twins
from tests.simd_kernels.harness import guarded, write

LOW = np.finfo(np.float32).min


def numbers(count, seed=0):
    return np.random.default_rng(seed).standard_normal(count, dtype=np.float32)


def grouped(scores):
    """Scores as kernels have them: the last group filled up; and the largest of each group."""
    whole = np.full(-(-len(scores) // GROUP) * GROUP, LOW, np.float32)
    whole[: len(scores)] = scores
    return guarded(whole), guarded(whole.reshape(-1, GROUP).max(1))


class Pick:
    """What `select.pick` is given, and what it finds."""

    def __init__(self, kernels, scores, wanted, threads=2, source=None, **fields):
        self.scores, tops = grouped(scores)
        source = tops if source is None else guarded(source)
        room = len(scores)
        self.ids, self.values = guarded(np.full(room, -1)), guarded(np.full(room, np.nan, np.float32))
        self.found, self.rescored, self.unsound = np.zeros((3, 1), np.int64)
        scratch = guarded(np.zeros(threads * 8192, np.uint8))
        step = write(record.STEP, scratch=scratch, scratch_bytes=8192)
        kernels.operate(
            "select.pick", record.PICK, 1, threads, step, scores=self.scores, tops=tops, groups=len(tops),
            rows=len(scores), source=source, source_count=np.array([len(source)]), wanted=wanted,
            counter=np.zeros(1, np.int64), ids=self.ids, values=self.values, found=self.found,
            rescored=self.rescored, unsound=self.unsound, **fields,
        )  # fmt: skip

    def rows(self):
        count = int(self.found[0])
        assert (self.ids[count:] == -1).all() and (self.values[:count] == self.scores[self.ids[:count]]).all()
        return sorted(self.ids[:count].tolist())


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 1000, 5000])
@pytest.mark.parametrize("wanted", [1, 2, 40])
def test_pick_finds_all_that_can_be_among_the_largest(kernels, rows, wanted):
    scores = numbers(rows)
    found = Pick(kernels, scores, wanted).rows()
    assert set(np.argsort(-scores)[:wanted]) <= set(found)
    least = scores[found].min()
    assert found == np.flatnonzero(scores >= least).tolist()
    assert len(found) <= 4 * wanted or rows < wanted * GROUP


@pytest.mark.parametrize("scores", [[2.0] * 300, [-0.0, 0.0] * 100, [1.0, -1e38] * 70])
def test_pick_finds_all_of_equal_numbers(kernels, scores):
    scores = np.array(scores, np.float32)
    assert Pick(kernels, scores, 2).rows() == np.flatnonzero(scores == scores.max()).tolist()


def test_pick_computes_anew_what_reaches_the_bound(kernels):
    """Scores are bounds some way above the logits; the bound is the 3rd of 5 given numbers."""
    rng = np.random.default_rng(0)
    blocks, x = guarded(random_rows(rng, "Q8_0", 500, 64)), numbers((1, 64))
    bias, out = numbers(500, 2), guarded(np.zeros(500, np.float32))
    row, dot = twins.row(*twins.quantise(x)), kernels.address("dot.Q8_0")
    quantised = guarded(row)
    kernels.call("dot.Q8_0", blocks, blocks.shape[1], 500, quantised, 64, out)
    logits = out + bias
    scores = logits + rng.random(500, dtype=np.float32)
    source = np.sort(logits)[[100, 490, 300, 495, 200]]
    matrix = {"w": blocks, "row_bytes": blocks.shape[1], "x": quantised, "cols": 64, "bias": bias, "dot": dot}
    for keep in (0, 1):
        pick = Pick(kernels, scores, 3, source=source, keep=keep, **matrix)
        reach = scores >= np.sort(source)[-3]
        assert pick.rows() == np.flatnonzero(reach & ((logits >= np.sort(source)[-3]) | bool(keep))).tolist()
        assert pick.rescored[0] == reach.sum()
        assert (pick.scores[:500] == np.where(reach, logits, scores)).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_pick_counts_groups_that_are_not_finite(kernels, threads):
    scores = numbers(5000)
    assert Pick(kernels, scores, 3, threads).unsound[0] == 0
    scores[[70, 80, 3000, 4999]] = np.nan
    assert Pick(kernels, scores, 3, threads).unsound[0] == 3


@pytest.mark.parametrize("kind", ["Q8_0", "Q6_K"])
@pytest.mark.parametrize("rows", [64, 200, 513])
@pytest.mark.parametrize("bias", [False, True])
def test_scan_is_the_linear_layer_and_the_largest_of_each_group(kernels, kind, rows, bias):
    blocks, x = guarded(random_rows(np.random.default_rng(0), kind, rows, 256)), numbers((1, 256))
    added = guarded(numbers(rows, 2)) if bias else 0
    (scores, tops), want = grouped(np.full(rows, LOW)), guarded(np.zeros(rows, np.float32))
    quantised = guarded(np.resize(twins.row(*twins.quantise(x)), activation_bytes(256)))
    dot = kernels.address(f"dot.{kind}")
    kernels.operate(
        "select.scan", record.SCAN, 1, 2, x=quantised, w=blocks, row_bytes=blocks.shape[1], rows=rows, cols=256,
        bias=added, dot=dot, counter=np.zeros(1, np.int64), chunk=128, scores=scores, tops=tops,
    )  # fmt: skip
    kernels.call(f"dot.{kind}", blocks, blocks.shape[1], rows, quantised, 256, want)
    want = want + (added if bias else np.float32(0))
    near = twins.rounded(x) @ dequantize(blocks, kind).T
    assert np.abs(want - near[0] - (added if bias else 0)).max() < 1e-3 * np.abs(near).max()
    assert (scores[:rows] == want).all() and (tops == grouped(want)[1]).all()


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
def test_scan_says_where_a_score_is_not_finite(kernels, bad):
    w = guarded(numbers((130, 8)))
    w[77, 3] = bad
    (scores, tops), x = grouped(np.full(130, LOW)), guarded(np.ones(8, np.float32))
    kernels.operate(
        "select.scan", record.SCAN, 1, 1, x=x, w=w, row_bytes=32, rows=130, cols=8, dot=kernels.address("dot.F32"),
        counter=np.zeros(1, np.int64), chunk=64, scores=scores, tops=tops,
    )  # fmt: skip
    assert np.isnan(tops).tolist() == [False, True, False]
