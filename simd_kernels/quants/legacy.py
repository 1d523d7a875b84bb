"""Types with blocks of 32 weights: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

Source of the layouts: block_q4_0 and its neighbours in ggml.  Nibble types hold weight j (0..15) in the low and
weight j + 16 in the high half of byte j; five-bit types hold the top bits of weights 0..31 in a 32-bit word before
them.
"""

from collections.abc import Sequence

from edgeinfer.simd_kernels.emit import I8, I32, Emitter, Value, vec
from edgeinfer.simd_kernels.quants.quant import Codes, Quant, halves, twice


class Legacy(Quant):
    """Blocks of 32: [d f16][m f16, if any][top bits u32, if any][nibbles or bytes]."""

    block, batch = 32, 8
    nibbles = 0  # where the nibbles begin

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        scales = self.scales(e, w, blocks)
        minimums = scales * -float(self.offset) if self.offset else halves(e, w + 2, self.bytes, blocks)
        at = [w + self.bytes * k for k in range(blocks)]
        return Codes(self.codes(e, at), scales, minimums)

    def scales(self, e: Emitter, w: Value, blocks: int) -> Value:
        """f32[blocks]"""
        return halves(e, w, self.bytes, blocks)

    def order(self, blocks: int) -> Sequence[int]:
        """Low nibbles of four blocks, then their high ones: these have the same scales."""
        fours = [range(first, min(first + 4, blocks)) for first in range(0, blocks, 4)]
        return [2 * block + half for four in fours for half in range(2) for block in four]

    def codes(self, e: Emitter, blocks: list[Value]) -> list[Value]:
        """Chunks of blocks at these addresses."""
        chunks = []
        for first in range(0, len(blocks), 4):
            raw = e.join(*(e.load(w + self.nibbles, vec(I8, 16)) for w in blocks[first : first + 4]))
            chunks += [raw & 15, e.shift(raw, 4) & 15]
        return chunks


class FiveBits(Legacy):
    """Blocks whose weights have a fifth bit, in a 32-bit word."""

    top = 0  # where the top bits are

    def order(self, blocks: int) -> Sequence[int]:
        return range(2 * blocks)  # as the top bits lie

    def codes(self, e: Emitter, blocks: list[Value]) -> list[Value]:
        chunks = []
        for first in range(0, len(blocks), 2):
            pair = blocks[first : first + 2]
            raw = e.join(*(twice(e, e.load(w + self.nibbles, vec(I8, 16))) for w in pair))
            low = e.shift(raw, *([0, 4] * len(pair))) & 15
            bits = e.flags(e.join(*(e.load(w + self.top, vec(I32, 1)) for w in pair)))
            chunks.append(e.select(bits, low + 16, low))
        return chunks


class Q4_0(Legacy):
    """d f16, nibbles u8[16]: w = d * (code - 8)."""

    name, bytes, offset, nibbles = "Q4_0", 18, 8, 2


class Q4_1(Legacy):
    """d f16, m f16, nibbles u8[16]: w = d * code + m."""

    name, bytes, nibbles = "Q4_1", 20, 4


class Q5_0(FiveBits):
    """d f16, top bits u32, nibbles u8[16]: w = d * (code - 16)."""

    name, bytes, offset, top, nibbles = "Q5_0", 22, 16, 2, 6


class Q5_1(FiveBits):
    """d f16, m f16, top bits u32, nibbles u8[16]: w = d * code + m."""

    name, bytes, top, nibbles = "Q5_1", 24, 4, 8


class Q8_0(Legacy):
    """d f16, i8[32]: w = d * byte, taken as d * (code - 128) of the byte with its sign bit flipped."""

    name, bytes, offset, wide = "Q8_0", 34, 128, True

    def order(self, blocks: int) -> Sequence[int]:
        return range(2 * blocks)

    def codes(self, e: Emitter, blocks: list[Value]) -> list[Value]:
        pairs = [blocks[first : first + 2] for first in range(0, len(blocks), 2)]
        return [e.join(*(e.load(w + 2, vec(I8, 32)) for w in pair)) ^ -128 for pair in pairs]


TYPES = (Q4_0(), Q4_1(), Q5_0(), Q5_1(), Q8_0())
