"""The view of the output matrix against numpy: what its bytes mean, and that its product bounds every logit."""

from types import SimpleNamespace

import numpy as np
import pytest

from edgeinfer.formats import dequantize
from edgeinfer.screen import coded
from edgeinfer.simd_kernels import layout, record
from edgeinfer.simd_kernels.layout import DIRECTIONS, VIEW_ROWS
from tests.blocks import FLOATS, random_rows
from tests.simd_kernels import twins
from tests.simd_kernels.harness import guarded, write

TYPES = ["Q8_0", "Q6_K", "F16", "F32"]


def matrix(kind, rows, cols, seed=0):
    """Blocks of a matrix like an output matrix, with a column that is far out and rows of zeros."""
    rng = np.random.default_rng(seed)
    if kind not in ("F16", "F32"):
        return random_rows(rng, kind, rows, cols)
    w = rng.standard_normal((rows, cols), dtype=np.float32)
    w[:, 5] *= 20
    w[3] = 0
    return w.astype(np.float16 if kind == "F16" else np.float32).view(np.uint8).reshape(rows, -1)


def directions(cols):
    """As floats f32[DIRECTIONS, cols], and coded."""
    q, _ = np.linalg.qr(np.random.default_rng(7).standard_normal((cols, DIRECTIONS)))
    return coded(q.T.astype(np.float32))


def build(kernels, kind, blocks, cols, threads=2):
    """The view's bytes, written in two parts."""
    rows = len(blocks)
    panels = guarded(np.zeros((-(-rows // VIEW_ROWS), layout.panel_bytes(cols)), np.uint8))
    each = layout.view_scratch(cols)
    scratch = guarded(np.full(each * threads, 255, np.uint8))
    step = write(record.STEP, scratch=scratch, scratch_bytes=each)
    for first, stop in ((0, 16), (16, rows)):
        kernels.operate(
            "screen.view", record.VIEW, 1, threads, step, w=blocks, row_bytes=blocks.shape[1], first=first, rows=stop,
            cols=cols, group=0 if kind in FLOATS else layout.group(kind), unpack=kernels.address(f"unpack.{kind}"),
            view=panels, panel_bytes=panels.shape[1], directions=guarded(directions(cols)[1]),
            counter=np.zeros(1, np.int64), chunk=16,
        )  # fmt: skip
    return panels


def read(panels, rows, cols):
    """The view as numbers: weights f64[rows, cols], scales of blocks (units), whole numbers of the last blocks
    i64[rows, 16], their scales."""
    count, blocks = len(panels), cols // 32
    unit, last = (panels[:, i : i + 64].copy().view(np.float32).astype(np.float64) for i in (0, 64))
    body = panels[:, 128 : 128 + 272 * blocks].reshape(count, blocks, 272)
    scales = unit[:, None] * body[..., :16].view(np.int8)
    words = body[..., 16:].reshape(count, blocks, 4, 16, 4).transpose(0, 3, 1, 2, 4).reshape(count, 16, blocks, 16)
    codes = np.concatenate([words & 15, words >> 4], -1).astype(np.float64) - 8
    weights = (scales.transpose(0, 2, 1)[..., None] * codes).reshape(count * 16, cols)
    ends = panels[:, 128 + 272 * blocks :].reshape(count, 4, 16, 4).transpose(0, 2, 1, 3).reshape(count * 16, 16)
    whole = 16 * (ends.astype(np.int64) >> 4) + (ends & 15) - 136
    units = scales.transpose(0, 2, 1).reshape(count * 16, blocks)
    of_rows = {"weights": weights, "units": units, "whole": whole, "scales": last.reshape(-1)}
    return SimpleNamespace(**{name: numbers[:rows] for name, numbers in of_rows.items()})


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("rows", [37, 64])
def test_view_is_near_and_knows_what_it_leaves(kernels, kind, rows):
    cols = 512
    blocks = guarded(matrix(kind, rows, cols))
    w = dequantize(blocks, kind).astype(np.float64)
    got = read(build(kernels, kind, blocks, cols), rows, cols)
    rest = w - got.weights
    most, units = np.abs(w).reshape(rows, -1, 32).max(-1), np.abs(got.units)
    assert (np.abs(rest).reshape(rows, -1, 32).max(-1) <= 0.503 * units).all()
    assert (units <= 1.001 / 7.49 * (most + most.max(1, keepdims=True) / 127)).all()
    products, scales = rest @ directions(cols)[0].astype(np.float64).T, got.scales[:, None]
    left = np.sqrt(32 * np.square(got.units).sum(1)) / 512  # of rests of 8 bits, which count as errors of 4.72 scales
    assert (np.abs(got.whole[:, :DIRECTIONS] * scales - products) <= 0.501 * scales + left[:, None]).all()
    assert (left <= 4.72 * got.scales).all()
    units = np.linalg.norm(rest, axis=1) / (119 / (110 * 0.2) * got.scales)
    assert (got.whole[:, 14] >= units - 1).all() and (got.whole[:, 14] <= 1.03 * units + 2).all()
    assert (got.whole[:, 15] == 1).all() and np.abs(got.whole).max() <= 119


def widened(kernels, x, cols):
    out = guarded(np.full(cols + 32, np.nan, np.float32))
    places = {"x": guarded(x), "out": out, "directions": guarded(directions(cols)[0])}
    kernels.operate("screen.widen", record.WIDEN, 1, 1, cols=cols, **places)
    return out


def test_widen(kernels):
    cols = 96
    x = np.random.default_rng(0).standard_normal(cols, dtype=np.float32)
    along = directions(cols)[0].astype(np.float64)
    products, size = along @ x, np.linalg.norm(x)
    norm, rounding = 119 / (110 * 0.2), 1.01 * DIRECTIONS**0.5 / 2 * np.linalg.norm(products) + 6 * size
    across = np.linalg.norm(x - products @ along) + 1e-5 * size
    want = np.array([*products, across * norm, rounding])
    assert widened(kernels, x, cols) == pytest.approx(np.concatenate([x, want, 16 * want]), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("rows", [37, 130])
@pytest.mark.parametrize("bias", [False, True])
def test_bounds_are_above_every_logit_and_not_far(kernels, kind, rows, bias):
    """Activations of any kind, the residuals of rows among them: what the inequality is tight for."""
    cols = 256
    blocks = guarded(matrix(kind, rows, cols))
    w, panels = dequantize(blocks, kind), build(kernels, kind, blocks, cols)
    view = read(panels, rows, cols)
    added = np.random.default_rng(3).standard_normal(rows, dtype=np.float32) if bias else np.zeros(rows, np.float32)
    rest = w - view.weights
    plain = np.random.default_rng(1).standard_normal((3, cols))
    for number, x in enumerate((*plain, *rest[:8], directions(cols)[0][2] + 0.1 * plain[0])):
        x = x.astype(np.float32)
        wide = widened(kernels, x, cols)
        exact = twins.finely_rounded(wide[None])[0].astype(np.float64)
        tops = guarded(np.zeros(-(-rows // 64), np.float32))
        scores = guarded(np.full(64 * len(tops), np.finfo(np.float32).min, np.float32))
        quantised = guarded(fine_row(kernels, wide))
        kernels.operate(
            "screen.bounds", record.BOUNDS, 1, 2, x=quantised, view=panels, panel_bytes=panels.shape[1], rows=rows,
            cols=cols, bias=added if bias else 0, counter=np.zeros(1, np.int64), chunk=64, scores=scores, tops=tops,
        )  # fmt: skip
        ends = (view.whole & 15) - 16 * (view.whole >> 3 & 1), (view.whole + 8) >> 4
        last = view.scales[:, None] * np.concatenate(ends, 1)
        twin = view.weights @ exact[:cols] + last @ exact[cols:] + added
        size = np.linalg.norm(w, axis=1) * np.linalg.norm(x)
        assert (np.abs(scores[:rows] - twin) <= 1e-5 * (size + np.abs(last) @ np.abs(exact[cols:])) + 1e-6).all()
        assert (tops == scores.reshape(-1, 64).max(1)).all() and (scores[rows:] == np.finfo(np.float32).min).all()
        for logits in (w.astype(np.float64) @ x, w.astype(np.float64) @ exact[:cols]):
            assert (scores[:rows] >= logits + added - 1e-6 * size).all(), number
            assert (scores[:rows] - logits - added <= 0.4 * size + 1e-6).all()


def fine_row(kernels, x):
    """A row of activations finely quantised by its kernel."""
    out = np.zeros(layout.activation_bytes(len(x), True), np.uint8)
    step = write(record.STEP, tokens=1, outputs=1)
    kernels.operate("quantise.fine", record.QUANTISE, 1, 1, step, x=x, width=len(x), groups=1, out=out)
    return out


def test_weights_that_are_not_finite_have_bounds_that_are_not(kernels):
    w = np.ones((20, 64), np.float32)
    w[4, 9], w[11, 2] = np.nan, np.inf
    last_scales = build(kernels, "F32", guarded(w.view(np.uint8)), 64)[:, 64:128].copy().view(np.float32)
    assert np.isfinite(last_scales.reshape(-1)[:20]).tolist() == [row not in (4, 11) for row in range(20)]
