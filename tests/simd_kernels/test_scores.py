"""Powers of two, by which scores become weights; what rows see is tested with attention (test_attention.py)."""

import numpy as np

from edgeinfer.simd_kernels import scores
from edgeinfer.simd_kernels.rows import WIDE
from tests.simd_kernels.harness import call, guarded


def test_powers_of_two(kernels):
    """Of numbers down to where weights end, far below that, and of what is not a number."""
    x = np.concatenate([np.linspace(-100, 0, 16 * 4093), [-100.5, -200, -1e30, -np.inf] * 4]).astype(np.float32)
    out, x_bytes = guarded(np.zeros_like(x)), x.nbytes

    def body(e, x, out):
        with e.loop(0, x_bytes, 64) as at:
            e.store(scores.power(e, e.load(x + at, WIDE)), out + at)

    call(kernels.build(2, body), guarded(x), out)
    want = np.where(x < -100, 0, np.exp2(x.astype(np.float64)))
    assert (np.abs(out - want) <= 2e-7 * want).all() and out[16 * 4093 - 1] == 1
    x[:] = np.nan
    call(kernels.build(2, body), guarded(x), out)
    assert np.isnan(out).all()
