"""Panels of every quantised type, made by words or by rows, against rows unpacked one by one."""

import numpy as np
import pytest

from edgeinfer.formats.ggml import GgmlType
from edgeinfer.simd_kernels import layout, tile
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.panel import panel_size
from tests.blocks import QUANTS, random_rows
from tests.simd_kernels.harness import guarded
from tests.simd_kernels.quants.test_quant import unpacked


class Panel:
    """Parts of as many rows as lanes: codes i8[rows, cols], scales, minimums f32[rows, groups], starts, steps i32."""

    def __init__(self, kernels, kind, blocks, count):
        tier, sizes = kernels.tier, GgmlType[kind]
        cols = blocks.shape[1] // sizes.bytes * sizes.block
        out, scratch = guarded(np.zeros(panel_size(tier), np.uint8)), guarded(np.zeros(layout.PANEL_AT, np.uint8))
        kernels.call(f"panel.{kind}", guarded(blocks), blocks.shape[1], count, cols, scratch, out)
        apart, groups = tier.tile_rows * layout.DEPTH, cols // layout.group(kind)
        codes = out[: tier.tile_rows * cols].reshape(-1, tier.tile_rows, 4).swapaxes(0, 1).reshape(tier.tile_rows, -1)
        places = [apart + apart // 4 * i for i in range(4)]
        numbers = [out[at : at + 4 * tier.tile_rows * groups].view(np.int32).reshape(groups, -1).T for at in places]
        assert not codes[tier.lanes :].any() and not any(some[tier.lanes :].any() for some in numbers)
        scales, minimums, self.starts, self.steps = (some[: tier.lanes] for some in numbers)
        self.codes = codes[: tier.lanes].view(np.int8)
        self.scales, self.minimums = scales.view(np.float32), minimums.view(np.float32)


@pytest.mark.parametrize("kind", QUANTS)
def test_panel(kernels, kind):
    lanes, group, e = kernels.tier.lanes, layout.group(kind), Emitter(None, kernels.tier)
    shape = tile.tile_of(kind)
    several, as_stored = shape.span(e) // group, shape.span(e) == group
    for cols in (GgmlType[kind].block, 512):
        for count in {1, lanes - 1, lanes, lanes + 3} - {0}:
            blocks = random_rows(np.random.default_rng(cols + count), kind, count, cols)
            made = Panel(kernels, kind, blocks, count)
            steps = np.repeat((made.steps & 0xFFFF).astype(np.int16).astype(np.int32), group, axis=1)
            assert (made.steps.astype(np.uint32) >> 16 == made.steps & 0xFFFF).all()
            factors = steps if shape.stepped(e) else np.ones_like(steps)
            for lane in range(lanes):
                codes, scales, minimums = unpacked(kernels, kind, blocks[min(lane, count - 1)][None])
                assert (made.minimums[lane] == (minimums if kind in layout.MINIMUMS else 0)).all()
                if as_stored:
                    assert (made.codes[lane] == codes).all() and (made.scales[lane] == scales).all()
                wide = np.repeat(made.scales[lane, ::several], shape.span(e)).astype(np.float64)
                want = np.repeat(scales, group).astype(np.float64) * codes
                assert (np.abs(wide * factors[lane] * made.codes[lane] - want) <= 2.0**-23 * np.abs(want)).all()
            sums = (made.codes * factors).reshape(lanes, -1, shape.span(e)).sum(axis=2)
            assert (made.starts[:, ::several] == shape.base(e) - e.raised() * sums).all()
            assert np.abs(sums).max() * 127 < 2**24
