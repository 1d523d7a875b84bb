"""Types with one scale a block and one or two bits a weight: Q1_0, Q2_0, TQ1_0, TQ2_0.

Source of the layouts: block_q1_0 and its neighbours in ggml.
"""

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants.k_quants import TwoBit
from edgeinfer.simd_kernels.quants.loads import half, halves
from edgeinfer.simd_kernels.quants.quant import Codes, Quant
from edgeinfer.simd_kernels.quants.stepped import Numbers, kept_halves
from edgeinfer.simd_kernels.values import I8, I32, I64, Value, vec


class Q1_0(Quant):
    """d f16, bits u8[16]: w = d * (2 * bit - 1)."""

    name, block, bytes, batch, largest, offset = "Q1_0", 128, 18, 4, 2, 1

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        words = [e.load(w + (self.bytes * (j // 2) + 2 + 8 * (j % 2)), I64) for j in range(2 * blocks)]
        two = e.const(vec(I8, 64), 2)
        d = e.pick(halves(e, w, self.bytes, blocks), [group // 4 for group in range(4 * blocks)])
        return Codes([e.select(e.flags(word), two, 0) for word in words], d, -d)


class Q2_0(Quant):
    """d f16, bit pairs u8[16], four neighbours in a byte: w = d * (code - 1)."""

    name, block, bytes, batch, largest, offset = "Q2_0", 64, 18, 4, 3, 1

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        chunks = []
        for block in range(blocks):
            four = e.widen(e.load(w + (self.bytes * block + 2), vec(I8, 16)), vec(I32, 16))
            pairs = four | (four << 12)
            chunks.append(e.bits((pairs | (pairs << 6)) & 0x03030303, vec(I8, 64)))
        d = e.pick(halves(e, w, self.bytes, blocks), [group // 2 for group in range(2 * blocks)])
        return Codes(chunks, d, -d)


class TQ2_0(TwoBit):
    """Bit pairs u8[64] as those of Q2_K, d f16: w = d * (code - 1)."""

    name, bytes, group, pairs, largest, offset = "TQ2_0", 66, 32, 0, 3, 1
    largest_step = 1

    def numbers(self, e: Emitter, places: list[Value]) -> list[Numbers]:
        ones = e.table(bytes([1] * 8))
        return [Numbers(d, ones) for d in kept_halves(e, [place + 64 for place in places])]

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        d = half(e, w + 64, 8)
        return Codes(self.two_bits(e, w), d, -d)


class TQ1_0(Quant):
    """Fractions u8[32], u8[16], u8[4], d f16: w = d * (code - 1), codes being the first digits of byte / 256 in base 3.

    Digits p of the first 32 bytes are weights 32p..32p+31, those of the next 16 begin at 160+16p, of the last four
    (with four digits) at 240+4p."""

    name, block, bytes, largest, offset = "TQ1_0", 256, 54, 2, 1

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        first = digits(e, e.load(w, vec(I8, 32)), 5)
        after = digits(e, e.load(w + 32, vec(I8, 16)), 5)
        last = e.join(*digits(e, e.load(w + 48, vec(I8, 4)), 4))
        middle = e.join(first[4], e.join(*after[:2]))
        chunks = [e.join(*first[:2]), e.join(*first[2:4]), middle, e.join(*after[2:], last)]
        d = half(e, w + 52, 8)
        return Codes(chunks, d, -d)


def digits(e: Emitter, fractions: Value, count: int) -> list[Value]:
    """So many vectors of 0, 1 or 2: of three times a fraction, the whole part is a digit and the rest the next
    fraction."""
    one, out = e.const(fractions.kind, 1), []
    for _ in range(count):
        ordered = fractions ^ -128  # comparisons are signed
        out.append(e.select(ordered >= 86 - 128, one, 0) + e.select(ordered >= 171 - 128, one, 0))
        fractions = fractions + fractions + fractions
    return out


TYPES = (Q1_0(), Q2_0(), TQ1_0(), TQ2_0())
