"""The register tiles against numpy."""

import dataclasses

import numpy as np
import pytest

from edgeinfer.simd_kernels import cpu, layout
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.kernels import TILES
from edgeinfer.simd_kernels.panel import panel_size
from tests.simd_kernels import twins
from tests.simd_kernels.harness import Kernels, between_rows, guarded, padded_rows

TILED = {t.name: t for t in TILES}


STEPS = {16: 32, 32: 128, 64: 31}  # size of the largest, by that of the largest code


def limits(name, tier):
    """Smallest and largest code."""
    kind = TILED[name]
    folded = kind.scales == "folded" and not kind.stepped(Emitter(None, tier))
    largest = 128 if folded else kind.largest
    return -largest, min(largest, 127)


def sweep(kernels, name, codes, steps, x_codes, x_scales, rng):
    """(got, want, sizes of terms) f32[tokens, rows] of one pass; codes i8[cols, rows], steps i32[cols / group, rows], x
    i8[tokens, cols]."""
    kind, rows, tokens = TILED[name], kernels.tier.panel_rows, kernels.tier.tile_tokens
    cols, each, e = len(codes), kind.group, Emitter(None, kernels.tier)
    several = kind.span(e) // each
    scales, minimums = rng.standard_normal((2, cols // each, rows), dtype=np.float32)
    scales = scales.astype(np.float16).astype(np.float32) * 63  # as precise as any type's
    scales[np.arange(cols // each) % several > 0] = np.nan  # nobody looks there
    minimums *= kind.minimums
    start = rng.standard_normal((len(x_codes), rows), dtype=np.float32)
    starts = np.zeros((cols // each, rows), np.int32)
    factors = np.repeat(steps if kind.stepped(e) else np.ones_like(steps), each, axis=0)
    sums = (codes * factors).reshape(-1, kind.span(e), rows).sum(axis=1)
    starts[::several] = kind.base(e) - e.raised() * sums
    panels, size = np.split(np.arange(rows), kernels.tier.panels), panel_size(kernels.tier)
    room = guarded(np.zeros(len(panels) * size + (rows + tokens) * layout.DEPTH * 2, np.uint8))
    for number, lanes in enumerate(panels):
        words = codes.reshape(cols // 4, 4, rows).swapaxes(1, 2)
        parts = [part[:, lanes] for part in (words, scales, minimums, starts, (steps & 0xFFFF) | (steps << 16))]
        for at, part in zip((0, 4, 5, 6, 7), parts, strict=True):
            first = number * size + at * (layout.DEPTH // 4) * len(lanes)
            room[first : first + part.nbytes] = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
    x, out = guarded(twins.tiles(x_codes, x_scales, kernels.tier)), padded_rows(np.zeros_like(start))
    d = x.ctypes.data + cols * tokens
    sums = d + cols // 8 * tokens * (2 if each == 16 else 1)
    begun = padded_rows(start, 3)
    sizes = (cols, len(panels), len(x))
    kernels.call(name, room, x, x.shape[1], d, sums, *sizes, begun, begun.strides[0], out, out.strides[0], 0, 0, 0, 0)
    assert np.isnan(between_rows(out)).all()
    w = np.repeat(scales[::several], kind.span(e), axis=0).astype(np.float64) * factors * codes
    low = np.repeat(minimums, each, axis=0).astype(np.float64)
    exact_x = x_codes * np.repeat(x_scales, 32, axis=1).astype(np.float64)
    return out, start + exact_x @ (w + low), np.abs(start) + np.abs(exact_x) @ (np.abs(w) + np.abs(low))


@pytest.mark.parametrize("name", TILED)
@pytest.mark.parametrize("cols", [32, 64, 96, 256, 512])
def test_tile(kernels, name, cols):
    rng, tier = np.random.default_rng(cols), kernels.tier
    least, most = limits(name, tier)
    codes = rng.integers(least, most + 1, (cols, tier.panel_rows)).astype(np.int8)
    steps = rng.integers(-31, 32, (cols // TILED[name].group, tier.panel_rows)).astype(np.int32)
    x_codes, x_scales = twins.quantise(rng.standard_normal((2 * tier.tile_tokens, cols), dtype=np.float32))
    got, want, size = sweep(kernels, name, codes, steps, x_codes, x_scales, rng)
    assert (np.abs(got - want) <= 2e-6 * size).all()


class ArmsShape(Kernels):
    """Tiles of the shape they have on ARM, which the hosts of most tests do not have: 12 rows, no power of two."""

    def __init__(self, folder):
        super().__init__(dataclasses.replace(cpu.tier("portable"), lanes=4, tile_rows=12, tile_tokens=4), folder)

    def address(self, name):
        return self.build(16, TILED[name].body)


@pytest.mark.parametrize("name", TILED)
def test_tile_of_twelve_rows(name, tmp_path):
    test_tile(ArmsShape(tmp_path), name, 96)


@pytest.mark.parametrize("name", TILED)
@pytest.mark.parametrize("sign", [-127, 127])
@pytest.mark.parametrize("end", [0, 1])
def test_tile_does_not_saturate(kernels, name, sign, end):
    tier = kernels.tier
    codes = np.full((64, tier.panel_rows), limits(name, tier)[end], np.int8)
    steps = np.full((64 // TILED[name].group, tier.panel_rows), STEPS.get(TILED[name].largest, 1), np.int32)
    x_codes, x_scales = np.full((tier.tile_tokens, 64), sign, np.int8), np.ones((tier.tile_tokens, 2), np.float32)
    got, want, size = sweep(kernels, name, codes, steps, x_codes, x_scales, np.random.default_rng(0))
    assert (np.abs(got - want) <= 2e-6 * size).all()


@pytest.mark.parametrize("cols", [1, 2, 31, 128])
def test_float_tile(kernels, cols):
    rng, tier = np.random.default_rng(cols), kernels.tier
    panel = rng.standard_normal((cols, tier.tile_rows), dtype=np.float32)
    x = guarded(rng.standard_normal((2 * tier.tile_tokens, cols + 3), dtype=np.float32))[:, 3:]
    start = guarded(rng.standard_normal(tier.tile_rows, dtype=np.float32))
    out = padded_rows(np.zeros((len(x), tier.tile_rows), np.float32))
    place = x.ctypes.data, x.strides[0]
    kernels.call("tile.float", guarded(panel), *place, cols, 1, 2, start, 0, out, out.strides[0], 0, 0, 0, 0)
    want = start + x.astype(np.float64) @ panel
    assert (np.abs(out - want) <= 2e-6 * (np.abs(start) + np.abs(x) @ np.abs(panel))).all()
