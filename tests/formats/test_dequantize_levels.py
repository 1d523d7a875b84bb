"""IQ4_NL, IQ4_XS, MXFP4 and NVFP4 worked out by hand."""

import pytest

from tests.formats.by_hand import COUNT_UP_AND_DOWN, check, f16

IQ4 = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]  # E2M1


def test_iq4_nl():
    check("IQ4_NL", f16(0.5) + COUNT_UP_AND_DOWN, [0.5 * w for w in IQ4 + IQ4[::-1]])


def test_iq4_xs():
    scales = [0, 1, 17, 63, 32, 47, 5, 20]
    high = sum((scale >> 4) << 2 * g for g, scale in enumerate(scales)).to_bytes(2, "little")
    low = sum((scale & 15) << 4 * g for g, scale in enumerate(scales)).to_bytes(4, "little")
    want = [0.5 * (scale - 32) * w for scale in scales for w in IQ4 + IQ4[::-1]]
    check("IQ4_XS", f16(0.5) + high + low + COUNT_UP_AND_DOWN * 8, want)


@pytest.mark.parametrize("exponent", [127, 126, 135, 2, 1, 0, 252])
def test_mxfp4(exponent):
    check("MXFP4", bytes([exponent]) + COUNT_UP_AND_DOWN, [2.0 ** (exponent - 127) * w for w in FP4 + FP4[::-1]])


def test_nvfp4():
    """Scales 1, 448 (the largest), 2 ** -9 (the smallest) and 0.75."""
    nibbles = bytes(low | (15 - low) << 4 for low in range(8))
    want = [scale * w for scale in (1, 448, 2**-9, 0.75) for w in FP4[:8] + FP4[:7:-1]]
    check("NVFP4", bytes([0x38, 0x7E, 0x01, 0x34]) + nibbles * 4, want)


def test_nvfp4_scale_that_is_not_a_number_is_zero():
    check("NVFP4", bytes([0x7F, 0, 0x7F, 0]) + COUNT_UP_AND_DOWN * 2, [0.0] * 64)
