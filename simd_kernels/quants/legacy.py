"""Types with blocks of 32 weights: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

Source of the layouts: block_q4_0 and its neighbours in ggml.  Nibble types hold weight j (0..15) in the low and
weight j + 16 in the high half of byte j; five-bit types hold the top bits of weights 0..31 in a 32-bit word before
them.
"""

from collections.abc import Sequence

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants.quant import Codes, Quant, Weights, halves, sixteens, strided, words
from edgeinfer.simd_kernels.values import I8, I16, I32, I64, Value, vec


class Legacy(Quant):
    """Blocks of 32: [d f16][m f16, if any][top bits u32, if any][nibbles or bytes]."""

    block, batch = 32, 8
    nibbles = 0  # where the nibbles begin

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        codes = self.codes(e, w, blocks)
        scales = self.scales(e, w, blocks)
        if self.paired:
            return Codes(codes, *(e.pick(scales, range(i, 2 * blocks, 2)) for i in range(2)))
        return Codes(codes, scales, scales * -float(self.offset))

    def weights(self, e: Emitter, places: list[Value], blocks: int) -> list[Weights]:
        return [Weights(scales, scales) for scales in (self.scales(e, place, blocks) for place in places)]

    def scales(self, e: Emitter, w: Value, blocks: int) -> Value:
        """f32[blocks]; where the type is paired, f32[2 * blocks], in turn a scale and a minimum."""
        if not self.paired:
            return halves(e, w, self.bytes, blocks)
        return e.half_to_float(e.bits(strided(e, w, self.bytes, blocks, I32), vec(I16, 2 * blocks)))

    def order(self, blocks: int) -> Sequence[int]:
        """Low nibbles of four blocks, then their high ones: these have the same scales."""
        return [
            2 * block + half
            for first, count in fours(blocks)
            for half in range(2)
            for block in range(first, first + count)
        ]

    def codes(self, e: Emitter, w: Value, blocks: int) -> list[Value]:
        """Chunks, in `order`."""
        chunks = []
        for first, count in fours(blocks):
            places = [k * self.bytes + self.nibbles for k in range(count)]
            raw = sixteens(e, w + first * self.bytes, count * self.bytes, places)
            chunks += [raw & 15, e.shift(raw, 4) & 15]
        return chunks


def fours(blocks: int) -> list[tuple[int, int]]:
    """The first of four blocks, and how many there are, for all of them."""
    return [(first, min(4, blocks - first)) for first in range(0, blocks, 4)]


class FiveBits(Legacy):
    """Blocks whose weights have a fifth bit, in a 32-bit word: halves of it belong to the low and the high nibbles."""

    top: int  # where the top bits are

    def weights(self, e: Emitter, places: list[Value], blocks: int) -> list[Weights]:
        """Where masks are registers of their own they are read from memory, for which top bits are picked together
        with the scales: of all blocks the low halves, then the high ones."""
        if e.tier.lanes < 16 or blocks < 4:
            return super().weights(e, places, blocks)
        starts = (range(0, self.top, 2), [self.top], [self.top + 2])
        wanted = [self.bytes * k + at for parts in starts for k in range(blocks) for at in parts]
        room = e.memory(64 * len(places))
        scales = []
        for i, place in enumerate(places):
            found = words(e, place, blocks * self.bytes, wanted + [0] * (32 - len(wanted)), I16)
            scales.append(e.half_to_float(e.part(found, 0, len(wanted) - 2 * blocks)))
            e.store(found, room + 64 * i)
        e.order()
        flags = 2 * len(wanted) - 4 * blocks
        return [Weights(numbers, numbers, room + (64 * i + flags)) for i, numbers in enumerate(scales)]

    def factors(self, e: Emitter, w: Value, blocks: int, more: Value | None) -> list[Value]:
        if more is None:
            return self.codes(e, w, blocks)
        places = (more + 2 * (half * blocks + first) for first, _ in fours(blocks) for half in range(2))
        flags = (e.flags(e.load(place, I64)) for place in places)
        return [e.raised_where(*pair, 16) for pair in zip(flags, super().codes(e, w, blocks), strict=True)]

    def codes(self, e: Emitter, w: Value, blocks: int) -> list[Value]:
        low = super().codes(e, w, blocks)
        flags = (self.flags(e, w + first * self.bytes, count) for first, count in fours(blocks))
        pairs = zip((flag for both in flags for flag in both), low, strict=True)
        return [e.raised_where(*pair, 16) for pair in pairs]

    def flags(self, e: Emitter, w: Value, blocks: int) -> list[Value]:
        """The top bits of up to four blocks, of low nibbles and of high ones."""
        tops = sixteens(e, w, blocks * self.bytes, [k * self.bytes + self.top for k in range(blocks)])
        single = e.const(tops.kind, [1 << i % 8 for i in range(tops.lanes)])
        sides = ([i & -16 | 2 * half | i % 16 // 8 for i in range(tops.lanes)] for half in range(2))
        return [(e.pick(tops, lanes) & single).equals(0) ^ -1 for lanes in sides]


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

    def codes(self, e: Emitter, w: Value, blocks: int) -> list[Value]:
        loaded = [e.load(w + (k * self.bytes + 2), vec(I8, 32)) for k in range(blocks)]
        return [e.join(*loaded[first : first + 2]) ^ -128 for first in range(0, blocks, 2)]


TYPES = (Q4_0(), Q4_1(), Q5_0(), Q5_1(), Q8_0())
