"""Types with super-blocks of 256 weights: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K.

Source of the layouts: block_q2_K and its neighbours in ggml.  Scales are themselves quantised, one (and a minimum)
for each 16 or 32 weights, and are decoded as a vector: 8 or 16 of them at once.
"""

from edgeinfer.simd_kernels.emit import I8, I32, Emitter, Value, vec
from edgeinfer.simd_kernels.quants.quant import Codes, Quant, half, twice


def bytes_of(e: Emitter, *words: Value) -> Value:
    """The bytes of 32-bit words behind each other, as f32[4 * words]."""
    raw = e.bits(e.join(*(e.bits(word, vec(I32, 1)) for word in words)), vec(I8, 4 * len(words)))
    return e.to_float(e.widen(raw, vec(I32, raw.lanes)))


def six_bit(e: Emitter, w: Value) -> tuple[Value, Value]:
    """The 8 scales and 8 minimums, f32[8] each, packed into the 12 bytes at `w` by Q4_K and Q5_K.

    Bytes 0-3: scales 0-3, bytes 4-7: minimums 0-3 (6 bits each; above them the top two bits of number 4-7); bytes
    8-11: low nibbles are the low bits of scales 4-7, high nibbles those of minimums 4-7."""
    a, b, c = (e.load(w + 4 * k, I32) for k in range(3))
    scales = bytes_of(e, a & 0x3F3F3F3F, (c & 0x0F0F0F0F) | ((a >> 2) & 0x30303030))
    minimums = bytes_of(e, b & 0x3F3F3F3F, ((c >> 4) & 0x0F0F0F0F) | ((b >> 2) & 0x30303030))
    return scales, minimums


class KQuant(Quant):
    block = 256


class Q4_K(KQuant):
    """d f16, dmin f16, scales u8[12], nibbles u8[128]: w = d * scale * code - dmin * minimum, groups of 32.

    Bytes 32j..32j+31 of the nibbles hold group 2j low and group 2j+1 high."""

    name, bytes = "Q4_K", 144

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        scales, minimums = six_bit(e, w + 4)
        chunks = [self.chunk(e, w, j) for j in range(4)]
        return Codes(chunks, scales * half(e, w, 8), minimums * -half(e, w + 2, 8))

    def chunk(self, e: Emitter, w: Value, j: int) -> Value:
        return e.shift(twice(e, e.load(w + (16 + 32 * j), vec(I8, 32))), 0, 4) & 15


class Q5_K(Q4_K):
    """As Q4_K with top bits u8[32] before the nibbles: bit g of byte i is the fifth bit of weight i of group g."""

    name, bytes = "Q5_K", 176

    def chunk(self, e: Emitter, w: Value, j: int) -> Value:
        low = e.shift(twice(e, e.load(w + (48 + 32 * j), vec(I8, 32))), 0, 4) & 15
        top = twice(e, e.load(w + 16, vec(I8, 32)))
        return low | (e.shift(top, 2 * j - 4, 2 * j - 3) & 16)


class Q6_K(KQuant):
    """Low nibbles u8[128], top bits u8[64], scales i8[16], d f16: w = d * scale * (code - 32), groups of 16.

    Each half (128 weights) has 64 nibble bytes: weights 0-63 low, 64-127 high; and 32 bytes whose bit pairs 0, 1, 2,
    3 belong to its weights 0-31, 32-63, 64-95, 96-127."""

    name, bytes, group = "Q6_K", 210, 16

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

    def two_bits(self, e: Emitter, w: Value, j: int) -> Value:
        raw = twice(e, e.load(w + (self.pairs + 32 * (j // 2)), vec(I8, 32)))
        return e.shift(raw, 4 * (j % 2), 4 * (j % 2) + 2) & 3


class Q2_K(TwoBit):
    """Scales u8[16] (low nibble scale, high nibble minimum), bit pairs u8[64], d f16, dmin f16.

    w = d * scale * code - dmin * minimum."""

    name, bytes, pairs = "Q2_K", 84, 16

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        packed = e.widen(e.load(w, vec(I8, 16)), vec(I32, 16))
        scales = e.to_float(packed & 15) * half(e, w + 80, 16)
        minimums = e.to_float(packed >> 4) * -half(e, w + 82, 16)
        return Codes([self.two_bits(e, w, j) for j in range(4)], scales, minimums)


class Q3_K(TwoBit):
    """Top bits u8[32], bit pairs u8[64], scales u8[12] (16 of 6 bits), d f16: w = d * (scale - 32) * (code - 4).

    Bit g of top byte i is the third bit of weight 32g + i.  Of the scales, bytes 0-7 hold low bits (nibbles low:
    scales 0-7, high: 8-15) and bytes 8-11 top bits (bit pair p of byte 8 + i: scale 4p + i)."""

    name, bytes, pairs = "Q3_K", 110, 32

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        a, b, c = (e.load(w + (96 + 4 * k), I32) for k in range(3))
        low = (a, b, a >> 4, b >> 4)
        words = [(low[p] & 0x0F0F0F0F) | (((c >> (2 * p)) & 0x03030303) << 4) for p in range(4)]
        scales = (bytes_of(e, *words) - 32.0) * half(e, w + 108, 16)
        top = twice(e, e.load(w, vec(I8, 32)))
        chunks = [self.two_bits(e, w, j) | (e.shift(top, 2 * j - 2, 2 * j - 1) & 4) for j in range(4)]
        return Codes(chunks, scales, scales * -4.0)


TYPES = (Q2_K(), Q3_K(), Q4_K(), Q5_K(), Q6_K())
