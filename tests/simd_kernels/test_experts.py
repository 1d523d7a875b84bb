"""Linear layers of experts against numpy: tokens are grouped by expert, and give the same bits in any company."""

import numpy as np
import pytest

from edgeinfer.formats import dequantize
from edgeinfer.simd_kernels import layout, record
from tests.blocks import FLOATS, random_rows
from tests.simd_kernels import twins
from tests.simd_kernels.harness import between_rows, guarded, padded_rows, write

EXPERTS, USED, ROWS, CHUNK = 7, 2, 37, 9


def choices(rng, tokens):
    """f32[tokens, 2 * USED]: never the last expert; the first token's are those of many."""
    numbers = np.array([rng.choice(EXPERTS - 1, USED, replace=False) for _ in range(tokens)], np.float32)
    numbers[::2] = numbers[0]
    return np.hstack([numbers, np.zeros_like(numbers)])


def quantised(kernels, x, parts, uniform):
    rows, width = len(x), x.shape[1] // parts
    each = layout.activation_bytes(width)
    out = guarded(np.full((rows * parts, each), 255, np.uint8))
    step = write(record.STEP, few=16, uniform=uniform)
    fields = {"width": width, "groups": parts, "out": out, "out_stride": each}
    kernels.operate("quantise.rows", record.QUANTISE, rows, 2, step, x=padded_rows(x), **fields)
    return out


@pytest.mark.parametrize("normalise", [0, 1])
def test_experts_by_the_root_of_a_softplus_or_by_a_table(kernels, normalise):
    rng = np.random.default_rng(3)
    x, bias = 9 * rng.standard_normal((5, EXPERTS), dtype=np.float32), rng.standard_normal(EXPERTS, dtype=np.float32)
    x[0, :2] = 1e4, -1e4
    table, ids = guarded(rng.integers(0, EXPERTS, (11, USED), np.int32)), guarded(np.array([10, 0, 3, 3, 7]))
    scratch = guarded(np.zeros(99 * EXPERTS, np.uint8))
    step = write(record.STEP, ids=ids, scratch=scratch)
    values = np.sqrt(np.logaddexp(0, x.astype(np.float64)))
    for name, chosen in (("route", np.argsort(-(values + bias), axis=1)[:, :USED]), ("assign", table[ids])):
        out = padded_rows(np.full((5, 2 * USED), np.nan, np.float32))
        more = {"bias": guarded(bias), "groups": 1} if name == "route" else {"table": table}
        fields = {"experts": EXPERTS, "used": USED, "normalise": normalise, "factor_f32": 1.5, **more}
        form = record.ROUTE if name == "route" else record.ASSIGN
        kernels.operate(f"{name}.sqrtsoftplus", form, 5, 1, step, x=padded_rows(x), out=out, **fields)
        weights = np.take_along_axis(values, chosen, axis=1)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 2.0**-14) if normalise else 1
        assert (out[:, :USED] == chosen).all() and np.isnan(between_rows(out)).all()
        assert np.abs(out[:, USED:] - 1.5 * weights).max() <= 1e-6 * np.abs(weights).max() + 1e-30


def operate(kernels, kind, w, bias, x, choice, parts, uniform=0, threads=2):
    tokens, cols, floating = len(x), x.shape[1] // parts, kind in FLOATS
    source = guarded(x) if floating else quantised(kernels, x, parts, uniform)
    part = 4 * cols if floating else layout.activation_bytes(cols)
    out = padded_rows(np.full((tokens, USED * ROWS), np.nan, np.float32))
    each = layout.up(layout.expert_scratch(EXPERTS, tokens * USED, cols, CHUNK), 64)
    scratch, counter = guarded(np.full(each * threads, 255, np.uint8)), np.zeros(1, np.int64)
    step = write(record.STEP, scratch=scratch, scratch_bytes=each, few=16, uniform=uniform)
    fields = {
        "x": source.ctypes.data, "x_stride": part * parts, "x_part": part if parts > 1 else 0, "y": guarded(choice),
        "w": w, "row_bytes": w.shape[-1], "expert_bytes": ROWS * w.shape[-1], "rows": ROWS, "cols": cols, "bias": bias,
        "dot": kernels.address(f"dot.{kind}"), "few": kernels.address(f"few.{kind}"), "used": USED, "experts": EXPERTS,
        "counter": counter, "chunk": CHUNK,
    }  # fmt: skip
    kernel = f"expert_linear.{'float' if floating else 'quantised'}"
    kernels.operate(kernel, record.EXPERT_LINEAR, tokens, threads, step, out=out, **fields)
    assert np.isnan(between_rows(out)).all()
    return np.ascontiguousarray(out).reshape(tokens, USED, ROWS)


@pytest.mark.parametrize("kind, cols", [("Q4_K", 512), ("Q6_K", 256), ("Q8_0", 96), ("F16", 50)])
@pytest.mark.parametrize("tokens", [1, 2, 7, 50])
@pytest.mark.parametrize("each", [False, True])
def test_expert_linear(kernels, kind, cols, tokens, each):
    rng, parts = np.random.default_rng(tokens), USED if each else 1
    w = guarded(random_rows(rng, kind, EXPERTS * ROWS, cols)).reshape(EXPERTS, ROWS, -1)
    bias = guarded(rng.standard_normal((EXPERTS, ROWS), dtype=np.float32))
    x, choice = rng.standard_normal((tokens, parts * cols), dtype=np.float32), choices(rng, tokens)
    got = operate(kernels, kind, w, bias, x, choice, parts)
    exact = dequantize(w.reshape(EXPERTS * ROWS, -1), kind).astype(np.float64).reshape(EXPERTS, ROWS, cols)
    rows = x.reshape(-1, cols) if kind in FLOATS else twins.rounded(x.reshape(-1, cols))
    rows = np.broadcast_to(rows.reshape(tokens, parts, cols), (tokens, USED, cols)).astype(np.float64)
    chosen = choice[:, :USED].astype(int)
    want = np.einsum("tuc,turc->tur", rows, exact[chosen]) + bias[chosen]
    size = np.einsum("tuc,turc->tur", np.abs(rows), np.abs(exact[chosen])) + np.abs(bias[chosen])
    assert (np.abs(got - want) <= 2e-5 * size + 1e-6).all()
    together = operate(kernels, kind, w, bias, x, choice, parts, uniform=1)
    for i in {0, tokens // 2}:
        alone = operate(kernels, kind, w, bias, x[i : i + 1], choice[i : i + 1], parts, uniform=1, threads=1)
        assert (alone[0] == together[i]).all()
