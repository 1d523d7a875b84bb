"""Q1_0, Q2_0, TQ1_0 and TQ2_0 worked out by hand."""

from tests.formats.by_hand import TWO_BITS, check, f16


def test_q1_0():
    want = [0.5 if byte >> bit & 1 else -0.5 for byte in range(100, 116) for bit in range(8)]
    check("Q1_0", f16(0.5) + bytes(range(100, 116)), want)


def test_q2_0():
    check("Q2_0", f16(0.5) + TWO_BITS * 15 + b"\x1b", [-0.5, 0, 0.5, 1] * 15 + [1, 0.5, 0, -0.5])


def test_tq2_0():
    first, second = TWO_BITS * 32, b"\x1b" * 32
    want = [w for half in ([-0.5, 0, 0.5, 1], [1, 0.5, 0, -0.5]) for w in half for _ in range(32)]
    check("TQ2_0", first + second + f16(0.5), want)


def fraction(*digits):
    """The byte / 256 that begins with these five digits in base 3 is the smallest that does."""
    number = sum(digit * 3 ** (4 - p) for p, digit in enumerate(digits))
    return -(-number * 256 // 243)


def test_tq1_0():
    first = bytes([fraction(0, 1, 2, 2, 0)] * 31 + [fraction(2, 0, 1, 0, 2)])
    after = bytes([fraction(1, 1, 0, 2, 1)] * 16)
    last = bytes([fraction(2, 1, 0, 1, 0), fraction(0, 0, 2, 2, 0), fraction(1, 2, 1, 0, 0), fraction(0, 0, 0, 1, 0)])
    digits = [q for pair in zip((0, 1, 2, 2, 0), (2, 0, 1, 0, 2), strict=True) for q in [pair[0]] * 31 + [pair[1]]]
    digits += [q for q in (1, 1, 0, 2, 1) for _ in range(16)]
    digits += [2, 0, 1, 0, 1, 0, 2, 0, 0, 2, 1, 0, 1, 2, 0, 1]
    check("TQ1_0", first + after + last + f16(0.5), [0.5 * (q - 1) for q in digits])
