"""Sizes that kernels and their callers agree on."""

import numpy as np
import pytest

from edgeinfer.formats.ggml import GgmlType
from edgeinfer.simd_kernels import kernels, layout, tile
from edgeinfer.simd_kernels.panel import panel_size


def test_aligned_memory_is_zero_and_begins_at_a_border():
    for size in (1, 4095, 4096, 5000):
        memory = layout.aligned(size)
        assert memory.size == size and memory.ctypes.data % 4096 == 0 and not memory.any()
    assert layout.aligned(100, 64).ctypes.data % 64 == 0


@pytest.mark.parametrize("width", [32, 64, 576, 2048])
def test_activations_have_room_for_codes_scales_and_sums(width):
    size, spanned = layout.activation_bytes(width), layout.up(width, layout.SPAN)
    assert size % 64 == 0 and size == spanned + 4 * (spanned // 32) + 4 * (spanned // 32) + 4 * (spanned // 16)
    assert layout.activation_bytes(width, fine=True) == size + spanned


@pytest.mark.parametrize("kv_type, number", [("f32", 4), ("f16", 2), ("q8_0", 1)])
@pytest.mark.parametrize("key_dim, value_dim", [(64, 64), (80, 80), (12, 40)])
def test_a_block_has_room_for_keys_values_and_scales(kv_type, number, key_dim, value_dim):
    keys, values = layout.block_bytes(kv_type, key_dim, value_dim)
    groups = [-(-dim // 32) for dim in (key_dim, value_dim)]  # values are padded, and codes
    if kv_type == "q8_0":
        assert [keys, values] == [16 * (32 + 2) * n for n in groups]
    else:
        assert [keys, values] == [16 * key_dim * number, 16 * 32 * groups[1] * number]


def test_scratch_holds_panel_and_sums_for_every_tier():
    from edgeinfer.simd_kernels import cpu
    from edgeinfer.simd_kernels.quants import streams

    assert streams.STREAMS * layout.FEW * 16 * 4 <= layout.SPARE  # sums of a few rows
    for tier in cpu.TIERS:
        numbers = 4 * layout.DEPTH // 16
        assert tier.lanes * max(layout.DEPTH + 2 * numbers, 4 * layout.FLOAT_DEPTH) <= layout.PANEL_AT
        assert tier.tile_rows * 4 * layout.FLOAT_DEPTH <= panel_size(tier)
        # codes, scales, minimums, starts, steps; codes and activations of 16 bits
        assert tier.tile_rows * (layout.DEPTH + 4 * numbers) <= panel_size(tier)
        pairs = 2 * (tier.panel_rows + tier.tile_tokens) * layout.DEPTH if tier.name == "avx2" else 0
        assert layout.PANEL_AT + tier.panels * panel_size(tier) + pairs <= layout.BIAS_AT
        assert layout.BIAS_AT + 4 * tier.panel_rows <= layout.SPARE
        for tokens in (1, 7, 512):
            rooms = layout.up(tokens, tier.tile_tokens)
            assert layout.scratch_bytes(rooms, tier.panel_rows, 64) >= layout.SPARE + 4 * tier.panel_rows * rooms


@pytest.mark.parametrize("experts", [8, 128, 100_000])
def test_scratch_holds_what_the_choice_of_experts_notes(experts):
    noted = 2 * 4 * experts + 2 * 4 * experts  # value and rank of each, merit and mark of each group of one
    assert layout.scratch_bytes(1, 8, widest=experts) >= noted


def test_types_that_are_listed_here_are_so():
    for kind, quant in kernels.QUANTS.items():
        size = max(quant.offset, quant.largest - quant.offset)
        assert layout.codes_to(kind) == min(each for each in (16, 32, 64, 128) if each >= size)
        assert layout.tile_name(kind) == tile.tile_of(kind).name
        assert (kind in layout.SIXTEENS) == (quant.group == 16)
        assert layout.DEPTH % GgmlType[kind].block == 0


def test_up():
    assert [layout.up(n, 16) for n in (0, 1, 16, 17)] == [0, 16, 16, 32] and np.all(layout.up(5, 1) == 5)
