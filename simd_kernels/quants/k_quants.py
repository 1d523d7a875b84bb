"""Types with super-blocks of 256 weights: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K.

Source of the layouts: block_q2_K and its neighbours in ggml.  Scales are themselves quantised, one (and a minimum)
for each 16 or 32 weights, and are decoded as a vector: 8 or 16 of them at once.
"""

from collections.abc import Sequence

from edgeinfer.simd_kernels.emit import I8, I16, I32, I64, Emitter, Value, vec
from edgeinfer.simd_kernels.quants.quant import Codes, Quant, half, twice

SIGNS = -0x7F7F7F7F7F7F7F80  # the top bit of every byte


def bytes_of(e: Emitter, *words: Value) -> Value:
    """The bytes of 64-bit words behind each other, signed, as f32[8 * words]."""
    raw = e.bits(e.join(*(e.bits(word, vec(I64, 1)) for word in words)), vec(I8, 8 * len(words)))
    return e.to_float(e.widen_signed(raw, vec(I32, raw.lanes)))


def six_bit(e: Emitter, w: Value) -> tuple[Value, Value]:
    """The 8 scales and 8 minimums, f32[8] each, packed into d f16, dmin f16 and 12 bytes at `w` by Q4_K and Q5_K.

    Bytes 0-3: scales 0-3, bytes 4-7: minimums 0-3 (6 bits each; above them the top two bits of number 4-7); bytes
    8-11: low nibbles are the low bits of scales 4-7, high nibbles those of minimums 4-7."""
    eight, four = e.load(w + 4, I64), e.widen(e.load(w + 12, I32), I64)
    first = eight & 0x3F3F3F3F3F3F3F3F  # scales and minimums 0-3
    after = (four & 0x0F0F0F0F) | ((four << 28) & 0x0F0F0F0F00000000) | ((eight >> 2) & 0x3030303030303030)
    words = e.pick(e.bits(e.join(e.bits(first, vec(I64, 1)), e.bits(after, vec(I64, 1))), vec(I32, 4)), (0, 2, 1, 3))
    steps = e.to_float(e.widen(e.bits(words, vec(I8, 16)), vec(I32, 16)))
    both = steps * e.pick(e.half_to_float(e.load(w, vec(I16, 4))), [0] * 8 + [1] * 8)
    return e.part(both, 0, 8), -e.part(both, 8, 8)


class KQuant(Quant):
    block = 256


class Q4_K(KQuant):
    """d f16, dmin f16, scales u8[12], nibbles u8[128]: w = d * scale * code - dmin * minimum, groups of 32.

    Bytes 32j..32j+31 of the nibbles hold group 2j low and group 2j+1 high."""

    name, bytes = "Q4_K", 144

    nibbles = 16  # where they begin

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        scales, minimums = six_bit(e, w)
        raws = [e.load(w + (self.nibbles + 64 * j), vec(I8, 64)) for j in range(2)]
        return Codes([part & 15 for raw in raws for part in (raw, e.shift(raw, 4))], scales, minimums)

    def order(self, blocks: int) -> Sequence[int]:
        """Groups 0 and 2, 1 and 3, 4 and 6, 5 and 7."""
        return [2 * group + half for group in (0, 2, 1, 3, 4, 6, 5, 7) for half in range(2)]


class Q5_K(Q4_K):
    """As Q4_K with top bits u8[32] before the nibbles: bit g of byte i is the fifth bit of weight i of group g."""

    name, bytes, nibbles = "Q5_K", 176, 48

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        low = super().load(e, w, blocks)
        top = twice(e, e.load(w + 16, vec(I8, 32)))
        moves = ((-4, -2), (-3, -1), (0, 2), (1, 3))
        chunks = [chunk | (e.shift(top, *move) & 16) for chunk, move in zip(low.chunks, moves, strict=True)]
        return Codes(chunks, low.scales, low.minimums)


class Q6_K(KQuant):
    """Low nibbles u8[128], top bits u8[64], scales i8[16], d f16: w = d * scale * (code - 32), groups of 16.

    Each half (128 weights) has 64 nibble bytes: weights 0-63 low, 64-127 high; and 32 bytes whose bit pairs 0, 1, 2,
    3 belong to its weights 0-31, 32-63, 64-95, 96-127."""

    name, bytes, group, offset = "Q6_K", 210, 16, 32

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        steps = e.widen_signed(e.load(w + 192, vec(I8, 16)), vec(I32, 16))
        scales = e.to_float(steps) * half(e, w + 208, 16)
        chunks = []
        for part in range(2):
            raw = e.load(w + 64 * part, vec(I8, 64))
            top = twice(e, e.load(w + (128 + 32 * part), vec(I8, 32)))
            for low, moves in ((raw, (-4, -2)), (e.shift(raw, 4), (0, 2))):
                chunks.append((low & 15) | (e.shift(top, *moves) & 48))
        return Codes(chunks, scales, scales * -32.0)


class TwoBit(KQuant):
    """Where Q2_K and Q3_K agree: each half (128 weights) has 32 bytes whose bit pair p holds its weights
    32p..32p+31."""

    group = 16
    pairs: int  # where the 64 bytes begin

    def two_bits(self, e: Emitter, w: Value) -> list[Value]:
        raw = e.load(w + self.pairs, vec(I8, 64))
        return [e.shift(raw, 2 * pair) & 3 for pair in range(4)]

    def order(self, blocks: int) -> Sequence[int]:
        """Bit pair by bit pair, of both halves."""
        return [8 * part + 2 * pair + half for pair in range(4) for part in range(2) for half in range(2)]


class Q2_K(TwoBit):
    """Scales u8[16] (low nibble scale, high nibble minimum), bit pairs u8[64], d f16, dmin f16.

    w = d * scale * code - dmin * minimum."""

    name, bytes, pairs = "Q2_K", 84, 16

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        packed = e.widen(e.load(w, vec(I8, 16)), vec(I32, 16))
        d = e.half_to_float(e.load(w + 76, vec(I16, 4)))  # after four bytes of bit pairs
        scales = e.to_float(packed & 15) * e.pick(d, [2] * 16)
        minimums = e.to_float(packed >> 4) * -e.pick(d, [3] * 16)
        return Codes(self.two_bits(e, w), scales, minimums)


class Q3_K(TwoBit):
    """Top bits u8[32], bit pairs u8[64], scales u8[12] (16 of 6 bits), d f16: w = d * (scale - 32) * (code - 4).

    Bit g of top byte i is the third bit of weight 32g + i.  Of the scales, bytes 0-7 hold low bits (nibbles low:
    scales 0-7, high: 8-15) and bytes 8-11 top bits (bit pair p of byte 8 + i: scale 4p + i)."""

    name, bytes, pairs, offset = "Q3_K", 110, 32, 4

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        low, four = e.load(w + 96, I64), e.widen(e.load(w + 104, I32), I64)
        tops = ((four << 4) & 0x30303030) | ((four << 34) & 0x3030303000000000)
        more = (four & 0x30303030) | ((four << 30) & 0x3030303000000000)
        words = [(low & 0x0F0F0F0F0F0F0F0F) | tops, ((low >> 4) & 0x0F0F0F0F0F0F0F0F) | more]
        # 32 is taken off every byte: with the top bit set nothing is borrowed from a neighbour.
        words = [((word | SIGNS) - 0x2020202020202020) ^ SIGNS for word in words]
        scales = bytes_of(e, *words) * half(e, w + 108, 16)
        top = twice(e, e.load(w, vec(I8, 32)))
        chunks = [code | (e.shift(top, pair - 2, pair + 2) & 4) for pair, code in enumerate(self.two_bits(e, w))]
        return Codes(chunks, scales, scales * -4.0)


TYPES = (Q2_K(), Q3_K(), Q4_K(), Q5_K(), Q6_K())
