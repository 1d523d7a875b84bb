"""dot and unpack of every quantised type against numpy, over block counts with and without a rest."""

import numpy as np
import pytest

from edgeinfer.formats import dequantize
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.simd_kernels import kernels as table
from edgeinfer.simd_kernels import layout
from tests.blocks import QUANTS, random_rows, scale_bytes
from tests.simd_kernels import twins
from tests.simd_kernels.harness import guarded

COLS = {32: (32, 64, 96, 128, 160, 224, 288, 416), 64: (64, 192, 256, 576), 128: (128, 512, 896), 256: (256, 512, 768)}
CASES = [(kind, cols) for kind in QUANTS for cols in COLS[GgmlType[kind].block]]


def unpacked(kernels, kind, row):
    """(codes i8[cols], scales, minimums f32[cols / group]) of one row of blocks."""
    cols = row.size // GgmlType[kind].bytes * GgmlType[kind].block
    codes = guarded(np.zeros(cols, np.int8))
    scales, minimums = (guarded(np.full(cols // layout.group(kind), np.nan, np.float32)) for _ in range(2))
    kernels.call(f"unpack.{kind}", guarded(row), cols, codes, scales, minimums)
    return codes, scales, minimums


@pytest.mark.parametrize("kind, cols", CASES)
def test_unpack_is_dequantize(kernels, kind, cols):
    row = random_rows(np.random.default_rng(cols), kind, 1, cols)
    codes, scales, minimums = unpacked(kernels, kind, row)
    by_code = [np.repeat(x, layout.group(kind)).astype(np.float64) for x in (scales, minimums)]
    got, want = by_code[0] * codes + by_code[1], dequantize(row, kind)[0].astype(np.float64)
    size = np.abs(by_code[0] * codes) + np.abs(by_code[1])
    assert (np.abs(got - want) <= 2.0**-22 * size).all()  # each product is rounded once or twice
    quant = table.QUANTS[kind]
    assert not quant.offset or not minimums.any()
    assert 0 <= codes.astype(int).min() + quant.offset and codes.astype(int).max() + quant.offset <= quant.largest


@pytest.mark.parametrize("kind, cols", CASES)
def test_dot_is_the_product_with_rounded_activations(kernels, kind, cols):
    rng = np.random.default_rng(cols)
    for rows in (1, 3, 13):  # rows are read by 2 or 8, the rest of them alone
        w = random_rows(rng, kind, rows, cols)
        x_codes, x_scales = twins.quantise(rng.standard_normal((1, cols), dtype=np.float32))
        out = guarded(np.full(rows, np.nan, np.float32))
        x = guarded(twins.row(x_codes, x_scales)[: cols * 3 // 2])
        kernels.call(f"dot.{kind}", guarded(w), w.shape[1], rows, x, cols, out)
        exact_x = x_codes[0] * np.repeat(x_scales[0], 32).astype(np.float64)
        want = dequantize(w, kind).astype(np.float64) @ exact_x
        assert (np.abs(out - want) <= 2e-6 * magnitude(kernels, kind, w, exact_x)).all()


@pytest.mark.parametrize("kind", QUANTS)
def test_unpack_is_dequantize_for_every_scale_of_the_kit(kernels, kind, shared):
    """Scales of zero, subnormal and huge; all codes."""
    raw = np.load(shared / "kit" / "quant" / "raw_blocks.npz")
    blocks, want = raw[f"{kind}_raw"], raw[f"{kind}_y"].reshape(-1).astype(np.float64)
    codes, scales, minimums = unpacked(kernels, kind, blocks.reshape(1, -1))
    by_code = [np.repeat(x, layout.group(kind)).astype(np.float64) for x in (scales, minimums)]
    size = np.abs(by_code[0] * codes) + np.abs(by_code[1])
    assert (np.abs(by_code[0] * codes + by_code[1] - want) <= 2.0**-22 * size).all()


def magnitude(kernels, kind, w, x):
    """Sums of the sizes of all terms the kernel adds, f64[rows]; codes count from 0, so they exceed the products'."""
    offset = table.QUANTS[kind].offset
    out = []
    for row in w:
        codes, scales, minimums = unpacked(kernels, kind, row[None])
        scale, minimum = (np.abs(np.repeat(v, layout.group(kind))) for v in (scales, minimums))
        out.append(((scale * (codes.astype(int) + 2 * offset) + minimum) * np.abs(x)).sum())
    return np.array(out)


@pytest.mark.parametrize("sign", [-127, 127])
@pytest.mark.parametrize("kind", QUANTS)
def test_dot_of_the_largest_codes_does_not_saturate(kernels, kind, sign):
    """All code bits set (Q8_0: the byte 127, taken as code 255), the largest code but for grids; activations +-127."""
    sizes = GgmlType[kind]
    cols = 2 * sizes.block * (3 if sizes.block == 32 else 1)
    w = random_rows(np.random.default_rng(0), kind, 1, cols).reshape(-1, sizes.bytes)
    w[:, [i for i in range(sizes.bytes) if i not in scale_bytes(kind)]] = 127 if kind == "Q8_0" else 255
    x_codes, x_scales = np.full((1, cols), sign, np.int8), np.ones((1, cols // 32), np.float32)
    out = np.zeros(1, np.float32)
    kernels.call(f"dot.{kind}", w, w.size, 1, twins.row(x_codes, x_scales), cols, out)
    exact_x = np.full(cols, float(sign))
    want = dequantize(w.reshape(1, -1), kind).astype(np.float64) @ exact_x
    assert abs(out[0] - want[0]) <= 2e-6 * magnitude(kernels, kind, w.reshape(1, -1), exact_x)[0]


def test_every_computable_type_has_its_kernels():
    computable = {kind.name for kind in GgmlType if kind.computable}
    assert set(table.QUANTS) | set(table.FLOATS) == computable
    assert set(layout.FLOATS) == set(table.FLOATS)


@pytest.mark.parametrize("kind", QUANTS)
def test_sizes_are_those_of_the_format(kind):
    quant = table.QUANTS[kind]
    assert (quant.block, quant.bytes) == (GgmlType[kind].block, GgmlType[kind].bytes)
    assert quant.group == layout.group(kind) and quant.wide == (layout.codes_to(kind) == 128)
