"""Linear layers and embeddings of every type against numpy: one token and many, rests of all kinds, biases."""

import numpy as np
import pytest

from edgeinfer.formats import dequantize
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.simd_kernels import kernels as table
from edgeinfer.simd_kernels import layout, record
from tests.blocks import FLOATS, QUANTS, random_rows
from tests.simd_kernels import twins
from tests.simd_kernels.harness import between_rows, guarded, padded_rows, write

TOKENS = [1, 2, 5, 6, 7, 13]
FEW, PANELS = 1000, 0  # most rows of activations that go without panels of weights
SLACK = 12  # units of 2**-24 of its terms' sizes that a sum may be off


class Case:
    """Weights of `rows` x `cols` and the record's fields for them; the record may be used once."""

    def __init__(self, kernels, kind, rows, cols, bias=False, seed=0):
        rng = np.random.default_rng([seed, rows, cols])
        self.kernels, self.kind, self.rows, self.cols = kernels, kind, rows, cols
        self.blocks = guarded(random_rows(rng, kind, rows, cols))
        self.w = dequantize(self.blocks, kind).astype(np.float64)
        self.bias = guarded(rng.standard_normal(rows, dtype=np.float32)) if bias else None
        self.floating = kind in FLOATS

    def operate(self, x, chunk=7, threads=1, claimed=0, few=PANELS):
        """out f32[tokens, rows], NaN where nothing was written, for x f32[tokens, cols]."""
        tokens, tier = len(x), self.kernels.tier
        each = layout.scratch_bytes(layout.up(tokens, tier.tile_tokens), tier.panel_rows, self.cols)
        scratch = guarded(np.full(each * threads, 255, np.uint8))
        step = write(record.STEP, tokens=tokens, scratch=scratch, scratch_bytes=each, few=few)
        out = padded_rows(np.full((tokens, self.rows), np.nan, np.float32), 3)
        source, stride = self.activations(x, few)
        fields = self.fields(chunk) | {"x": source.ctypes.data, "x_stride": stride, "counter": np.array([claimed])}
        kernel = f"linear.{'float' if self.floating else 'quantised'}"
        self.kernels.operate(kernel, record.LINEAR, tokens, threads, step, out=out, **fields)
        assert np.isnan(between_rows(out)).all()
        return out

    def fields(self, chunk):
        sizes, address = GgmlType[self.kind], self.kernels.address
        return {
            "w": self.blocks, "row_bytes": self.blocks.shape[1], "rows": self.rows, "cols": self.cols, "chunk": chunk,
            "bias": 0 if self.bias is None else self.bias,
            "dot": address(f"dot.{self.kind}"), "few": address(f"few.{self.kind}"),
            "panel": address(f"panel.{self.kind}"), "tile": address(layout.tile_name(self.kind)),
            "block": sizes.block, "block_bytes": sizes.bytes, "group": layout.group(self.kind),
        }  # fmt: skip

    def activations(self, x, few):
        """(memory, bytes of a row) of what the kernel reads; rows that only fill up a tile hold NaN."""
        n = self.kernels.tier.tile_tokens
        if not self.floating:
            codes, scales = twins.quantise(x)
            several = twins.spans(codes, scales) if len(x) <= few else twins.tiles(codes, scales, self.kernels.tier)
            data = twins.row(codes, scales) if len(x) == 1 else several
            return guarded(data), layout.activation_bytes(self.cols)
        rooms = np.full((layout.up(len(x), n) if len(x) > 1 else 1, self.cols), np.nan, np.float32)
        rooms[: len(x)] = x
        return guarded(rooms), 4 * self.cols

    def check(self, got, x):
        """Sums of float32 in some order, compared with the sizes of their terms."""
        x = x.astype(np.float64) if self.floating else twins.rounded(x).astype(np.float64)
        bias = 0 if self.bias is None else self.bias
        size = np.abs(x) @ self.size().T + np.abs(bias)
        assert (np.abs(got - (x @ self.w.T + bias)) <= SLACK * 2.0**-24 * size).all()

    def size(self):
        """Of the terms that make a weight, f64[rows, cols]: codes that count from 0, and minimums, may largely cancel
        out."""
        if self.floating:
            return np.abs(self.w)
        codes = np.zeros(self.cols, np.int8)
        scales, minimums = np.zeros((2, self.cols // layout.group(self.kind)), np.float32)
        out = np.empty_like(self.w)
        for row, blocks in zip(out, self.blocks, strict=True):
            self.kernels.call(f"unpack.{self.kind}", blocks.copy(), self.cols, codes, scales, minimums)
            low, scale = (np.abs(np.repeat(v, layout.group(self.kind))) for v in (minimums, scales))
            row[:] = low + scale * (codes.astype(np.float64) + 2 * table.QUANTS[self.kind].offset)
        return out


def numbers(*shape):
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("kind", QUANTS + FLOATS)
@pytest.mark.parametrize("tokens", TOKENS)
def test_linear(kernels, kind, tokens):
    case = Case(kernels, kind, 37, 256, bias=tokens % 2 == 0)
    x = numbers(tokens, 256)
    case.check(case.operate(x), x)


@pytest.mark.parametrize("kind", QUANTS + FLOATS)
@pytest.mark.parametrize("tokens", [2, 3, 8])
def test_a_few_rows(kernels, kind, tokens):
    """Equal to the last bit whatever other rows there are."""
    case = Case(kernels, kind, 37, 256, bias=tokens % 2 == 0)
    x = numbers(tokens, 256)
    got = case.operate(x, few=FEW, threads=2)
    case.check(got, x)
    assert (got[:2] == case.operate(x[:2], few=FEW)).all()
    if case.floating:
        assert (got[0] == case.operate(x[:1])).all()


@pytest.mark.parametrize("kind, cols", [("Q4_K", 2304), ("Q6_K", 1280), ("Q8_0", 1120), ("Q4_1", 96), ("F16", 130)])
@pytest.mark.parametrize("tokens", [16, 17, 35])
def test_rows_in_groups_and_columns_in_parts(kernels, kind, cols, tokens):
    """16 rows at a time, whose activations stay in the cache for 1024 columns; a chunk has more rows than a pass."""
    case = Case(kernels, kind, 70, cols, bias=True)
    x = numbers(tokens, cols)
    got = case.operate(x, few=FEW, chunk=67)
    case.check(got, x)
    assert (got[-2:] == case.operate(x[-2:], few=FEW)).all()


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0", "F16"])
@pytest.mark.parametrize("cols", [32, 96, 512, 544, 1120])
@pytest.mark.parametrize("tokens", [1, 7])
def test_linear_over_panels_of_columns(kernels, kind, cols, tokens):
    case = Case(kernels, kind, 33, cols, bias=True)
    x = numbers(tokens, cols)
    case.check(case.operate(x), x)


@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K"])
@pytest.mark.parametrize("cols", [768, 1280])
def test_linear_over_panels_of_super_blocks(kernels, kind, cols):
    case = Case(kernels, kind, 9, cols)
    x = numbers(3, cols)
    case.check(case.operate(x), x)


@pytest.mark.parametrize("cols", [1, 3, 31, 127, 130])
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("tokens", [1, 5])
def test_float_types_take_any_number_of_columns(kernels, kind, cols, tokens):
    case = Case(kernels, kind, 10, cols)
    x = numbers(tokens, cols)
    case.check(case.operate(x), x)


@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K", "F32"])
@pytest.mark.parametrize("rows", [1, 8, 31, 32, 64, 70])
@pytest.mark.parametrize("tokens", [1, 6])
@pytest.mark.parametrize("bias", [False, True])
def test_any_number_of_rows(kernels, kind, rows, tokens, bias):
    case = Case(kernels, kind, rows, 256, bias)
    x = numbers(tokens, 256)
    case.check(case.operate(x, threads=2), x)


@pytest.mark.parametrize("kind", ["Q4_0", "Q2_K", "BF16"])
def test_600_tokens(kernels, kind):
    case = Case(kernels, kind, 40, 512, bias=True)
    x = numbers(600, 512)
    case.check(case.operate(x), x)


@pytest.mark.parametrize("kind", ["Q5_1", "F32"])
def test_rows_that_others_have_claimed_are_left_to_them(kernels, kind):
    """The counter stands at 2: with one token or a few 2 chunks are taken, with several 2 panels."""
    panel = kernels.tier.panel_rows
    case = Case(kernels, kind, 2 * panel + 3, 256)
    for tokens, few, taken in ((1, PANELS, 2 * 5), (3, FEW, 2 * 5), (3, PANELS, 2 * panel)):
        x = numbers(tokens, 256)
        got, want = case.operate(x, chunk=5, claimed=2, few=few), case.operate(x, chunk=5, few=few)
        assert np.isnan(got[:, :taken]).all() and (got[:, taken:] == want[:, taken:]).all()


@pytest.mark.parametrize("kind", ["Q4_K", "Q8_0"])
def test_activations_that_are_not_finite_reach_the_output(kernels, kind):
    case = Case(kernels, kind, 5, 256)
    for bad in (np.nan, np.inf):
        for tokens, few in ((1, PANELS), (4, FEW), (4, PANELS)):
            x = numbers(tokens, 256)
            x[0, 100] = bad
            got = case.operate(x, few=few)
            assert not np.isfinite(got[0]).any() and np.isfinite(got[1:]).all()


@pytest.mark.parametrize("kind", QUANTS + FLOATS)
@pytest.mark.parametrize("threads", [1, 3])
def test_embed(kernels, kind, threads):
    table = guarded(random_rows(np.random.default_rng(0), kind, 9, 512))
    ids = guarded(np.array([8, 0, 3, 3, 8]))
    each = layout.scratch_bytes(8, kernels.tier.panel_rows, 512)
    scratch = guarded(np.full(each * threads, 255, np.uint8))
    out = padded_rows(np.full((5, 512), np.nan, np.float32))
    step = write(record.STEP, scratch=scratch, scratch_bytes=each)
    fields = {
        "numbers": ids, "table": table, "row_bytes": table.shape[1], "cols": 512,
        "group": layout.group(kind), "scale_f32": 1.5, "unpack": kernels.address(f"unpack.{kind}"),
    }  # fmt: skip
    kernel = f"embed.{'float' if kind in FLOATS else 'quantised'}"
    kernels.operate(kernel, record.EMBED, 5, threads, step, out=out, **fields)
    want = dequantize(table[ids], kind) * np.float32(1.5)
    largest = np.abs(want).max() * 4
    assert (np.abs(out - want) <= 2.0**-23 * largest).all() and np.isnan(between_rows(out)).all()


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("cols", [1, 17, 50])
def test_embed_of_float_tables_of_any_width(kernels, kind, cols):
    table, out = guarded(random_rows(np.random.default_rng(0), kind, 4, cols)), guarded(np.zeros((1, cols), np.float32))
    ids = np.array([3])
    step = write(record.STEP)
    unpack = kernels.address(f"unpack.{kind}")
    fields = {"numbers": ids, "table": table, "row_bytes": table.shape[1], "cols": cols, "group": 32, "scale_f32": 1.0}
    kernels.operate("embed.float", record.EMBED, 1, 1, step, out=out, unpack=unpack, **fields)
    assert (out == dequantize(table[3:], kind)).all()
