"""Types with blocks of 32 weights: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

Source of the layouts: block_q4_0 and its neighbours in ggml.  Nibble types hold weight j (0..15) in the low and
weight j + 16 in the high half of byte j; five-bit types hold the top bits of weights 0..31 in a 32-bit word before
them.
"""

from edgeinfer.simd_kernels.emit import I8, I32, Emitter, Value, vec
from edgeinfer.simd_kernels.quants.quant import Codes, Quant, halves


class Legacy(Quant):
    """Blocks of 32: [d f16][m f16, if any][top bits u32, if any][nibbles or bytes]."""

    block, batch = 32, 4
    offset = 0  # weight = d * (code - offset), for types without a minimum
    nibbles = 0  # where the nibbles begin
    top = 0  # where the top bits are, 0 for none

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        scales = self.scales(e, w, blocks)
        minimums = scales * -float(self.offset) if self.offset else halves(e, w + 2, self.bytes, blocks)
        pairs = [[w + self.bytes * (first + k) for k in range(min(2, blocks))] for first in range(0, blocks, 2)]
        return Codes([self.codes(e, pair) for pair in pairs], scales, minimums)

    def scales(self, e: Emitter, w: Value, blocks: int) -> Value:
        """f32[blocks]"""
        return halves(e, w, self.bytes, blocks)

    def codes(self, e: Emitter, blocks: list[Value]) -> Value:
        """u8[32 * blocks] of one or two blocks at these addresses."""
        raw = e.join(*(e.load(w + self.nibbles, vec(I8, 16)) for w in blocks))
        lanes = [16 * k + i for k in range(len(blocks)) for _ in range(2) for i in range(16)]
        codes = e.shift(e.pick(raw, lanes), *([0, 4] * len(blocks))) & 15
        if not self.top:
            return codes
        bits = e.flags(e.join(*(e.load(w + self.top, vec(I32, 1)) for w in blocks)))
        return codes | e.select(bits, e.const(codes.kind, 16), 0)


class Q4_0(Legacy):
    """d f16, nibbles u8[16]: w = d * (code - 8)."""

    name, bytes, offset, nibbles = "Q4_0", 18, 8, 2


class Q4_1(Legacy):
    """d f16, m f16, nibbles u8[16]: w = d * code + m."""

    name, bytes, nibbles = "Q4_1", 20, 4


class Q5_0(Legacy):
    """d f16, top bits u32, nibbles u8[16]: w = d * (code - 16)."""

    name, bytes, offset, top, nibbles = "Q5_0", 22, 16, 2, 6


class Q5_1(Legacy):
    """d f16, m f16, top bits u32, nibbles u8[16]: w = d * code + m."""

    name, bytes, top, nibbles = "Q5_1", 24, 4, 8


class Q8_0(Legacy):
    """d f16, i8[32]: w = d * byte, taken as d * (code - 128) of the byte with its sign bit flipped."""

    name, bytes, offset, wide = "Q8_0", 34, 128, True

    def codes(self, e: Emitter, blocks: list[Value]) -> Value:
        return e.join(*(e.load(w + 2, vec(I8, 32)) for w in blocks)) ^ -128


TYPES = (Q4_0(), Q4_1(), Q5_0(), Q5_1(), Q8_0())
