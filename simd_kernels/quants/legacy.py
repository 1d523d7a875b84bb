"""Types with blocks of 32 weights: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

Source of the layouts: block_q4_0 and its neighbours in ggml.  Nibble types hold weight j (0..15) in the low and
weight j + 16 in the high half of byte j; five-bit types hold the top bits of weights 0..31 in a 32-bit word before
them.
"""

from collections.abc import Sequence

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants.loads import sixteens, words
from edgeinfer.simd_kernels.quants.quant import Codes, Quant, Weights
from edgeinfer.simd_kernels.values import I8, I16, I32, I64, Value, vec


class Legacy(Quant):
    """Blocks of 32: [d f16][m f16, if any][top bits u32, if any][nibbles or bytes]."""

    block, batch = 32, 8
    nibbles = 0  # where the nibbles begin
    by_eight: Sequence[int] = range(8)  # in which turn sums of 8 blocks suit vectors of 8 lanes or fewer

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        codes = self.codes(e, w, blocks)
        if self.paired:
            both = self.both(e, w, range(blocks))
            return Codes(codes, *(e.pick(both, range(i, 2 * blocks, 2)) for i in range(2)))
        scales = self.scales(e, w, range(blocks))
        return Codes(codes, scales, scales * -float(self.offset))

    def weights(self, e: Emitter, places: list[Value], blocks: int) -> list[Weights]:
        turn = self.turn(e, blocks)
        if not self.paired:
            return [Weights(scales, scales) for scales in (self.scales(e, place, turn) for place in places)]
        if self.as_pairs(e):
            return [Weights(pairs, pairs) for pairs in (self.both(e, place, turn) for place in places)]
        # Of two registers an instruction takes every second lane, in turn those of a quarter of one and of the other.
        crossed = (0, 1, 4, 5, 2, 3, 6, 7) if blocks == 8 else range(blocks)
        both = [self.both(e, place, [turn[i] for i in crossed]) for place in places]
        return [Weights(*(e.pick(some, [2 * i + minimum for i in crossed]) for minimum in range(2))) for some in both]

    def scales(self, e: Emitter, w: Value, turn: Sequence[int]) -> Value:
        """f32[turn] of blocks in this turn."""
        return e.half_to_float(words(e, w, self.bytes * len(turn), [self.bytes * block for block in turn], I16))

    def both(self, e: Emitter, w: Value, turn: Sequence[int]) -> Value:
        """f32[2 * turn], of each block a scale and a minimum."""
        both = words(e, w, self.bytes * len(turn), [self.bytes * block for block in turn], I32)
        return e.half_to_float(e.bits(both, vec(I16, 2 * len(turn))))

    def as_pairs(self, e: Emitter) -> bool:
        """Vectors of 16 lanes hold those of 8 blocks."""
        return self.paired and e.tier.lanes == 16

    def turn(self, e: Emitter, blocks: int) -> Sequence[int]:
        return self.by_eight if blocks == 8 and e.tier.lanes < 16 else range(blocks)

    def order(self, e: Emitter, blocks: int) -> Sequence[int]:
        """Low nibbles of four blocks, then their high ones: these have the same scales."""
        return [2 * block + half for some in self.fours(e, blocks) for half in range(2) for block in some]

    def fours(self, e: Emitter, blocks: int) -> list[Sequence[int]]:
        """Blocks by four: where vectors are narrow, so that sums that are added to neighbours three times end in
        `turn`."""
        if blocks < 8 or e.tier.lanes == 16:
            return [range(first, min(first + 4, blocks)) for first in range(0, blocks, 4)]
        return [[self.by_eight[first + i] for i in (0, 4, 2, 6)] for first in range(2)]

    def codes(self, e: Emitter, w: Value, blocks: int) -> list[Value]:
        """Chunks, in `order`."""
        chunks = []
        for some in self.fours(e, blocks):
            raw = sixteens(e, w, blocks * self.bytes, [k * self.bytes + self.nibbles for k in some])
            chunks += [raw & 15, e.shift(raw, 4) & 15]
        return chunks


class FiveBits(Legacy):
    """Blocks whose weights have a fifth bit, in a 32-bit word: halves of it belong to the low and the high nibbles."""

    top: int  # where the top bits are
    by_eight = (0, 2, 4, 6, 1, 3, 5, 7)  # so that 32 bytes hold those of two blocks side by side

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
        places = (more + 2 * (half * blocks + first) for first in range(0, blocks, 4) for half in range(2))
        flags = (e.flags(e.load(place, I64)) for place in places)
        return [e.raised_where(*pair, 16) for pair in zip(flags, super().codes(e, w, blocks), strict=True)]

    def codes(self, e: Emitter, w: Value, blocks: int) -> list[Value]:
        low = super().codes(e, w, blocks)
        flags = (self.flags(e, w, blocks, some) for some in self.fours(e, blocks))
        pairs = zip((flag for both in flags for flag in both), low, strict=True)
        return [e.raised_where(*pair, 16) for pair in pairs]

    def flags(self, e: Emitter, w: Value, blocks: int, some: Sequence[int]) -> list[Value]:
        """The top bits of some of the blocks, of low nibbles and of high ones."""
        places, first = [k * self.bytes + self.top for k in some], [0, 0]  # of every two sixteens the bytes to be taken
        if e.tier.lanes == 8 and len(some) > 1:  # neighbours
            tops, first[1] = e.join(*(e.load(w + place, vec(I8, 32)) for place in places[::2])), self.bytes - 16
        else:
            tops = sixteens(e, w, blocks * self.bytes, places)
        single = e.const(tops.kind, [1 << i % 8 for i in range(tops.lanes)])
        eights = range(0, tops.lanes, 8)
        sides = (
            [(i & -16) + first[i // 16 % 2] + 2 * half + i // 8 % 2 for i in eights for _ in range(8)]
            for half in range(2)
        )
        return [(e.pick(tops, lanes) & single).equals(0) ^ -1 for lanes in sides]


class Q4_0(Legacy):
    """d f16, nibbles u8[16]: w = d * (code - 8)."""

    name, bytes, largest, offset, nibbles = "Q4_0", 18, 15, 8, 2


class Q4_1(Legacy):
    """d f16, m f16, nibbles u8[16]: w = d * code + m."""

    name, bytes, largest, paired, nibbles = "Q4_1", 20, 15, True, 4
    by_eight = (0, 2, 7, 1, 4, 6, 3, 5)  # as few shuffles as can be


class Q5_0(FiveBits):
    """d f16, top bits u32, nibbles u8[16]: w = d * (code - 16)."""

    name, bytes, largest, offset, top, nibbles = "Q5_0", 22, 31, 16, 2, 6


class Q5_1(FiveBits):
    """d f16, m f16, top bits u32, nibbles u8[16]: w = d * code + m."""

    name, bytes, largest, paired, top, nibbles = "Q5_1", 24, 31, True, 4, 8


class Q8_0(Legacy):
    """d f16, i8[32]: w = d * byte, taken as d * (code - 128) of the byte with its sign bit flipped."""

    name, bytes, largest, offset = "Q8_0", 34, 255, 128

    def order(self, e: Emitter, blocks: int) -> Sequence[int]:
        return range(2 * blocks)

    def turn(self, e: Emitter, blocks: int) -> Sequence[int]:
        return range(blocks)

    def codes(self, e: Emitter, w: Value, blocks: int) -> list[Value]:
        loaded = [e.load(w + (k * self.bytes + 2), vec(I8, 32)) for k in range(blocks)]
        return [e.join(*loaded[first : first + 2]) ^ -128 for first in range(0, blocks, 2)]


TYPES = (Q4_0(), Q4_1(), Q5_0(), Q5_1(), Q8_0())
