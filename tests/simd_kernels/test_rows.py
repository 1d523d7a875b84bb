"""Kernels that do each row on its own, against numpy: odd widths, shares of workers, nothing between rows touched."""

import math

import numpy as np
import pytest

from edgeinfer.reference_ops import rows as reference
from edgeinfer.simd_kernels import record
from tests.simd_kernels.harness import between_rows, guarded, padded_rows, write

WIDTHS = [1, 2, 15, 16, 17, 31, 32, 33, 100, 576]
ROWS = [(1, 1), (5, 1), (5, 2), (2, 3), (7, 4)]  # rows, workers


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def rowwise(kernels, name, form, x, rows=None, threads=1, step=0, **fields):
    """Run an operation that reads rows of x, and y, and writes rows of `out`; the output."""
    source = padded_rows(x)
    given = {key: padded_rows(v) if isinstance(v, np.ndarray) and v.ndim == 2 else v for key, v in fields.items()}
    rows = len(x) if rows is None else rows
    out = padded_rows(np.full((rows, x.shape[1]), np.nan, np.float32), 3)
    if "width" in form.names:
        given["width"] = x.shape[1]
    kernels.operate(name, form, rows, threads, step, x=source, out=out, **given)
    assert np.isnan(between_rows(out)).all()
    return out


def close(got, want, limit=1e-6):
    """Within `limit` of the size of `want`, number by number, and of 1 at least."""
    return np.abs(got - want) <= limit * np.maximum(np.abs(want), 1)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x * math.sqrt(0.5)))


GATES = [("gated.silu", silu), ("gated.gelu", gelu), ("gated.gelu_erf", gelu_erf)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows, threads", ROWS)
def test_add(kernels, width, rows, threads):
    x, y = numbers(2, rows, width)
    got = rowwise(kernels, "add", record.ELEMENTWISE, x, threads=threads, y=y)
    assert (got == x + y).all()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name, act", GATES)
def test_gated(kernels, width, name, act):
    x, y = numbers(2, 3, width)
    x = x * 4
    got = rowwise(kernels, name, record.ELEMENTWISE, x, y=y)
    assert close(got, act(x.astype(np.float64)) * y, 2e-6).all()


@pytest.mark.parametrize("name, act", GATES)
def test_activations_far_out_and_not_finite(kernels, name, act):
    x = np.array([[-1e4, -200, -100, -88, -20, 20, 88, 200, 1e9, 0, -0.0, np.nan, np.inf]], np.float32)
    got = rowwise(kernels, name, record.ELEMENTWISE, x, y=np.ones_like(x))[0]
    assert np.abs(got[:4]).max() <= 1e-30 and got[5:9].tolist() == x[0, 5:9].tolist()
    assert got[9] == got[10] == 0 and np.isnan(got[11]) and got[12] == np.inf


@pytest.mark.parametrize("width", WIDTHS)
def test_softcap(kernels, width):
    x = numbers(3, width) * 60
    got = rowwise(kernels, "softcap", record.UNARY, x, a_f32=30.0)
    assert close(got, 30 * np.tanh(x.astype(np.float64) / 30), 4e-6).all()


def test_softcap_of_what_is_not_finite(kernels):
    x = np.array([[np.inf, -np.inf, np.nan]], np.float32)
    got = rowwise(kernels, "softcap", record.UNARY, x, a_f32=30.0)[0]
    assert got[:2].tolist() == [30, -30] and np.isnan(got[2])


@pytest.mark.parametrize("size, groups", [*((w, 1) for w in WIDTHS), (16, 5), (20, 3), (64, 4)])
@pytest.mark.parametrize("rows, threads", [(1, 1), (5, 2)])
def test_norm(kernels, size, groups, rows, threads):
    x, weight = numbers(rows, size * groups), guarded(numbers(size, seed=1))
    fields = {"weight": weight, "size": size, "groups": groups, "eps_f32": 1e-5}
    got = rowwise(kernels, "norm", record.NORM, x, threads=threads, **fields)
    each = x.reshape(rows, groups, size).astype(np.float64)
    want = each / np.sqrt((each**2).mean(axis=-1, keepdims=True) + 1e-5) * weight
    assert close(got, want.reshape(x.shape), 2e-6).all()


def test_norm_of_zeros_and_of_what_is_not_finite(kernels):
    x = np.zeros((3, 20), np.float32)
    x[1, 19], x[2, 3] = np.nan, np.inf
    fields = {"weight": np.ones(20, np.float32), "size": 20, "groups": 1, "eps_f32": 1e-6}
    got = rowwise(kernels, "norm", record.NORM, x, **fields)
    assert (got[0] == 0).all() and np.isnan(got[1]).all() and np.isnan(got[2, 3])


@pytest.mark.parametrize("size, groups", [*((w, 1) for w in WIDTHS), (16, 5), (20, 3)])
@pytest.mark.parametrize("rows, threads", [(1, 1), (5, 2)])
def test_softmax(kernels, size, groups, rows, threads):
    x = numbers(rows, size * groups) * 9 - 50
    got = rowwise(kernels, "softmax", record.SOFTMAX, x, threads=threads, size=size, groups=groups)
    weights = np.exp(x.reshape(rows, groups, size).astype(np.float64))
    assert close(got, (weights / weights.sum(axis=-1, keepdims=True)).reshape(x.shape), 1e-6).all()


def test_softmax_of_what_is_not_finite(kernels):
    x = np.zeros((2, 20), np.float32)
    x[0, 3], x[1, 19] = -np.inf, np.nan
    got = rowwise(kernels, "softmax", record.SOFTMAX, x, size=20, groups=1)
    assert got[0, 3] == 0 and close(np.delete(got[0], 3), np.full(19, 1 / 19)).all() and np.isnan(got[1]).all()


@pytest.mark.parametrize("side, turns", [(1, 1), (2, 1), (4, 20), (5, 3)])
@pytest.mark.parametrize("rows, threads", [(1, 1), (5, 2)])
def test_sinkhorn(kernels, side, turns, rows, threads):
    x = numbers(rows, side * side) * 3
    got = rowwise(kernels, "sinkhorn", record.SINKHORN, x, threads=threads, side=side, turns=turns, eps_f32=0.01)
    want = np.exp(x.reshape(rows, side, side).astype(np.float64))
    want = want / want.sum(axis=2, keepdims=True) + 0.01
    for turn in range(turns):
        want = want / (want.sum(axis=2, keepdims=True) + 0.01) if turn else want
        want = want / (want.sum(axis=1, keepdims=True) + 0.01)
    assert close(got, want.reshape(x.shape), 1e-5).all()


@pytest.mark.parametrize("size, groups", [*((w, 1) for w in WIDTHS), (20, 3), (64, 4)])
@pytest.mark.parametrize("rows, threads", [(1, 1), (5, 2)])
def test_dot(kernels, size, groups, rows, threads):
    x, y = numbers(2, rows, size * groups)
    out = padded_rows(np.full((rows, groups), np.nan, np.float32))
    fields = {"x": padded_rows(x), "y": padded_rows(y), "out": out, "size": size, "groups": groups}
    kernels.operate("dot", record.GROUPED, rows, threads, **fields)
    want = (x.astype(np.float64) * y).reshape(rows, groups, size).sum(axis=-1)
    assert np.abs(out - want).max() <= 1e-6 * size and np.isnan(between_rows(out)).all()


@pytest.mark.parametrize("width", [2, 15, 16, 33, 576])
@pytest.mark.parametrize("deviations", [0.0, 0.5, 1.6])
def test_sparsify(kernels, width, deviations):
    x = numbers(5, width) * 3 + 7
    got = rowwise(kernels, "sparsify", record.UNARY, x, threads=2, a_f32=deviations)
    exact = x.astype(np.float64)
    least = exact.mean(axis=1, keepdims=True) + deviations * exact.std(axis=1, ddof=1, keepdims=True)
    assert close(got, np.maximum(exact - least, 0), 1e-5).all()


def test_sparsify_of_what_is_not_finite(kernels):
    x = numbers(2, 20)
    x[1, 3] = np.nan
    got = rowwise(kernels, "sparsify", record.UNARY, x, a_f32=1.0)
    assert np.isfinite(got[0]).all() and np.isnan(got[1]).all()


@pytest.mark.parametrize("width", WIDTHS)
def test_square_roots_are_rounded_right(kernels, width):
    x = np.square(numbers(2, width))
    assert (rowwise(kernels, "activate.sqrt", record.UNARY, x) == np.sqrt(x)).all()


def test_pick(kernels):
    table = guarded(numbers(40))
    places = np.array([[39, 0, 7], [1, 1, 38]], np.float32)
    got = rowwise(kernels, "pick", record.ELEMENTWISE, places, y=table, y_stride=0)
    assert (got == table[places.astype(int)]).all()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_outputs(kernels, width, threads):
    x, picked = numbers(6, width), guarded(np.array([5, 0, 3]))
    step = write(record.STEP, picked=picked)
    got = rowwise(kernels, "outputs", record.OUTPUTS, x, rows=3, threads=threads, step=step)
    assert (got == x[picked]).all()


# Rope


@pytest.mark.parametrize("adjacent", [True, False])
@pytest.mark.parametrize("head_dim, pairs", [(16, 8), (64, 32), (24, 12), (10, 5), (64, 9), (80, 16), (2, 1), (20, 0)])
@pytest.mark.parametrize("heads, threads", [(1, 1), (3, 2)])
def test_rope(kernels, adjacent, head_dim, pairs, heads, threads):
    rows, positions = 4, guarded(np.array([0, 5, 2, 9]))
    x = numbers(rows, heads * head_dim)
    table = guarded(numbers(10, 2, pairs, seed=1)) if pairs else np.zeros(1, np.float32)
    fields = {"heads": heads, "head_dim": head_dim, "pairs": pairs, "table": table.ctypes.data}
    step = write(record.STEP, positions=positions)
    name = f"rope.{'adjacent' if adjacent else 'halves'}"
    got = rowwise(kernels, name, record.ROPE, x, threads=threads, step=step, **fields)
    want = x.reshape(rows, heads, head_dim).copy()
    if pairs:
        first = slice(0, 2 * pairs, 2) if adjacent else slice(0, pairs)
        second = slice(1, 2 * pairs, 2) if adjacent else slice(pairs, 2 * pairs)
        cos, sin = (table[positions][:, None, i] for i in range(2))
        a, b = want[..., first].copy(), want[..., second].copy()
        want[..., first], want[..., second] = a * cos - b * sin, a * sin + b * cos
    assert close(got, want.reshape(x.shape), 1e-6).all()


def test_the_twins_of_activations_are_the_references():
    x = numbers(1, 100)[0]
    assert close(silu(x), reference.silu(x)).all() and close(gelu(x), reference.gelu(x)).all()


def test_the_exact_gelu_is_near_to_both_sides(kernels):
    x = np.linspace(-9, 9, 6001, dtype=np.float32)[None]
    got = rowwise(kernels, "activate.gelu_erf", record.UNARY, x)
    assert np.abs(got - gelu_erf(x.astype(np.float64))).max() <= 5e-7


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("most, from_end", [(2**31, 0), (1, 0), (1, 1)])
def test_pooling(kernels, width, most, from_end):
    counts = [1, 5, 2, 17]
    ends = np.cumsum(counts)
    x = numbers(sum(counts), width)
    spans = guarded(np.stack([ends - counts, counts], axis=1))
    step = write(record.STEP, spans=spans)
    got = rowwise(kernels, "pool", record.POOL, x, len(counts), 3, step, most=most, from_end=from_end)
    chunks = np.split(x, ends[:-1])
    want = [rows.mean(axis=0) if most > 1 else rows[-1] if from_end else rows[0] for rows in chunks]
    assert close(got, np.array(want)).all() and (most > 1 or (got == want).all())
