"""Panels of every quantised type, made by words or by rows, against rows unpacked one by one."""

import numpy as np
import pytest

from edgeinfer.formats.ggml import GgmlType
from edgeinfer.simd_kernels import layout, tile
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.instructions import ROUND_BITS
from tests.blocks import QUANTS, random_rows
from tests.simd_kernels.harness import guarded
from tests.simd_kernels.quants.test_quant import unpacked


def panel(kernels, kind, blocks, count):
    """(codes i8[rows, cols], scales, minimums f32[rows, groups], starts i32[rows, groups]) of as many rows as lanes."""
    tier, sizes = kernels.tier, GgmlType[kind]
    cols = blocks.shape[1] // sizes.bytes * sizes.block
    out, scratch = guarded(np.zeros(tile.panel_size(tier), np.uint8)), guarded(np.zeros(layout.PANEL_AT, np.uint8))
    kernels.call(f"panel.{kind}", guarded(blocks), blocks.shape[1], count, cols, scratch, out)
    apart, groups = tier.tile_rows * layout.DEPTH, cols // layout.group(kind)
    codes = out[: tier.tile_rows * cols].reshape(-1, tier.tile_rows, 4).swapaxes(0, 1).reshape(tier.tile_rows, -1)
    places = [apart + apart // 4 * i for i in range(3)]
    numbers = [out[at : at + 4 * tier.tile_rows * groups].view(np.int32).reshape(groups, -1).T for at in places]
    assert not codes[tier.lanes :].any() and not any(some[tier.lanes :].any() for some in numbers)
    scales, minimums, starts = (some[: tier.lanes] for some in numbers)
    return codes[: tier.lanes].view(np.int8), scales.view(np.float32), minimums.view(np.float32), starts


@pytest.mark.parametrize("kind", QUANTS)
def test_panel(kernels, kind):
    lanes, group = kernels.tier.lanes, layout.group(kind)
    for cols in (GgmlType[kind].block, 512):
        for count in {1, lanes - 1, lanes, lanes + 3} - {0}:
            blocks = random_rows(np.random.default_rng(cols + count), kind, count, cols)
            codes, scales, minimums, starts = panel(kernels, kind, blocks, count)
            for lane in range(lanes):
                row = min(lane, count - 1)
                want = unpacked(kernels, kind, blocks[row : row + 1])
                assert (codes[lane] == want[0]).all() and (scales[lane] == want[1]).all()
                assert (minimums[lane] == (want[2] if kind in layout.MINIMUMS else 0)).all()
            each = 32 if kind in layout.MINIMUMS else group
            sums = codes.astype(np.int32).reshape(lanes, -1, each).sum(axis=2)
            want = ROUND_BITS - Emitter(None, kernels.tier).raised() * sums
            assert (starts[:, :: each // group] == want).all()
