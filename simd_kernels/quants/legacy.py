"""Types with blocks of 32 weights: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

Source of the layouts: block_q4_0 and its neighbours in ggml.  Nibble types hold weight j (0..15) in the low and
weight j + 16 in the high half of byte j; five-bit types hold the top bits of weights 0..31 in a 32-bit word before
them.
"""

from collections.abc import Sequence

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants.quant import Codes, Quant, halves, strided, twice
from edgeinfer.simd_kernels.values import I8, I16, I32, I64, Value, vec


class Legacy(Quant):
    """Blocks of 32: [d f16][m f16, if any][top bits u32, if any][nibbles or bytes]."""

    block, batch = 32, 8
    nibbles = 0  # where the nibbles begin

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        codes = self.codes(e, [w + self.bytes * k for k in range(blocks)])
        scales = self.scales(e, w, blocks)
        if self.paired:
            return Codes(codes, *(e.pick(scales, range(i, 2 * blocks, 2)) for i in range(2)))
        return Codes(codes, scales, scales * -float(self.offset))

    def weights(self, e: Emitter, places: list[Value], blocks: int) -> list[tuple[Value, Value]]:
        scales = [self.scales(e, place, blocks) for place in places]
        return list(zip(scales, scales, strict=True))

    def scales(self, e: Emitter, w: Value, blocks: int) -> Value:
        """f32[blocks]; where the type is paired, f32[2 * blocks], in turn a scale and a minimum."""
        if not self.paired:
            return halves(e, w, self.bytes, blocks)
        return e.half_to_float(e.bits(strided(e, w, self.bytes, blocks, I32), vec(I16, 2 * blocks)))

    def order(self, blocks: int) -> Sequence[int]:
        """Low nibbles of four blocks, then their high ones: these have the same scales."""
        fours = [range(first, min(first + 4, blocks)) for first in range(0, blocks, 4)]
        return [2 * block + half for four in fours for half in range(2) for block in four]

    def codes(self, e: Emitter, blocks: list[Value]) -> list[Value]:
        """Chunks of blocks at these addresses."""
        chunks = []
        for first in range(0, len(blocks), 4):
            raw = self.sixteens(e, blocks[first : first + 4])
            chunks += [raw & 15, e.shift(raw, 4) & 15]
        return chunks

    def sixteens(self, e: Emitter, blocks: list[Value]) -> Value:
        """The nibbles of up to four blocks, behind each other.

        Where blocks are whole words and instructions pick any words of two vectors, one takes them all."""
        if e.tier.lanes < 16 or len(blocks) < 4 or self.bytes % 4:
            return e.join(*(e.load(w + self.nibbles, vec(I8, 16)) for w in blocks))
        last = self.bytes - 16  # words from 64 bytes before the end of the four
        first, after = (e.load(blocks[0] + at, vec(I32, 16)) for at in (0, 4 * last))
        words = [(block * self.bytes + self.nibbles) // 4 + word for block in range(4) for word in range(4)]
        return e.bits(e.pick(first, [word if word < 16 else 16 + word - last for word in words], after), vec(I8, 64))


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
            bits = e.join(*(e.load(w + self.top, vec(I32, 1)) for w in pair))
            if e.tier.lanes == 16 and len(pair) == 2:  # flags are made of whole words
                words = (e.widen(e.load(w + self.top, I32), I64) for w in pair)
                bits = next(words) | (next(words) << 32)
            chunks.append(e.select(e.flags(bits), low + 16, low))
        return chunks


class Q4_0(Legacy):
    """d f16, nibbles u8[16]: w = d * (code - 8)."""

    name, bytes, largest, offset, nibbles = "Q4_0", 18, 15, 8, 2


class Q4_1(Legacy):
    """d f16, m f16, nibbles u8[16]: w = d * code + m."""

    name, bytes, largest, paired, nibbles = "Q4_1", 20, 15, True, 4


class Q5_0(FiveBits):
    """d f16, top bits u32, nibbles u8[16]: w = d * (code - 16)."""

    name, bytes, largest, offset, top, nibbles = "Q5_0", 22, 31, 16, 2, 6


class Q5_1(FiveBits):
    """d f16, m f16, top bits u32, nibbles u8[16]: w = d * code + m."""

    name, bytes, largest, paired, top, nibbles = "Q5_1", 24, 31, True, 4, 8


class Q8_0(Legacy):
    """d f16, i8[32]: w = d * byte, taken as d * (code - 128) of the byte with its sign bit flipped."""

    name, bytes, largest, offset = "Q8_0", 34, 255, 128

    def order(self, blocks: int) -> Sequence[int]:
        return range(2 * blocks)

    def codes(self, e: Emitter, blocks: list[Value]) -> list[Value]:
        pairs = [blocks[first : first + 2] for first in range(0, len(blocks), 2)]
        return [e.join(*(e.load(w + 2, vec(I8, 32)) for w in pair)) ^ -128 for pair in pairs]


TYPES = (Q4_0(), Q4_1(), Q5_0(), Q5_1(), Q8_0())
