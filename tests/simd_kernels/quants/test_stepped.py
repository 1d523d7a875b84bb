"""Sums of the largest codes, steps and activations, of types that multiply by steps while sums are integers."""

import numpy as np
import pytest

from edgeinfer.formats import dequantize
from edgeinfer.simd_kernels import kernels as table
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants.stepped import Stepped
from tests.blocks import random_rows, scale_bytes
from tests.simd_kernels import twins
from tests.simd_kernels.harness import guarded

TYPES = {name: quant for name, quant in table.QUANTS.items() if isinstance(quant, Stepped)}
COLS = 512


@pytest.mark.parametrize("sign", [-127, 127])
@pytest.mark.parametrize("byte", [0, 128, 255])
@pytest.mark.parametrize("kind", TYPES)
def test_no_sum_is_too_large_for_its_bits(kernels, kind, byte, sign):
    quant = TYPES[kind]
    w = random_rows(np.random.default_rng(0), kind, 1, COLS)
    blocks = w.reshape(-1, quant.bytes)
    blocks[:, [i for i in range(quant.bytes) if i not in scale_bytes(kind)]] = byte
    if kind == "Q6_K":
        blocks[:, 192:208] = 128  # the largest step in size, whatever the codes
    row = twins.row(np.full((1, COLS), sign, np.int8), np.ones((1, COLS // 32), np.float32))
    scales = blocks[:, scale_bytes(kind)].copy().view(np.float16).astype(np.float64)
    largest = np.abs(scales).max() * quant.largest_step
    for fine in ("", "fine."):
        number = 257 * sign if fine else sign  # both planes alike
        low = np.full(COLS, sign, np.int8).view(np.uint8)
        x = np.concatenate([row[: COLS * 3 // 2], low]) if fine else row[: COLS * 3 // 2]
        if fine:
            sums = x[COLS + COLS // 8 : COLS * 3 // 2].view(np.float32)
            sums *= 257
        out = guarded(np.full(1, np.nan, np.float32))
        kernels.call(f"dot.{fine}{kind}", guarded(w), w.size, 1, guarded(x), COLS, out)
        want = dequantize(w, kind).astype(np.float64).sum() * number
        assert abs(out[0] - want) <= 2e-6 * COLS * largest * (quant.largest + 1) * abs(number)


@pytest.mark.parametrize("kind", TYPES)
def test_eights_are_all_there(kernels, kind):
    assert sorted(TYPES[kind].eights(Emitter(None, kernels.tier))) == list(range(32))
