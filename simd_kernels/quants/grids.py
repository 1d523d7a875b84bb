"""Types whose bits are indices of grids of 8 or 4 weights: IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S.

Source of the layouts: block_iq2_xxs and its neighbours in ggml; of the grids: formats/grids.py.  A grid becomes a
table of 1 to 16 kB in the code.
"""

from edgeinfer.formats.grids import grid
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants.loads import half, packed
from edgeinfer.simd_kernels.quants.quant import Codes, Quant
from edgeinfer.simd_kernels.values import I8, I16, I32, I64, Value, vec


def entries(e: Emitter, name: str, add: int, times: int, index: Value) -> list[Value]:
    """Chunks u8[64] of grid * times + add at indices of 256 weights."""
    points = grid(name).astype(int) * times + add
    table, each = e.table(points.astype("u1").tobytes()), points.shape[1]
    parts = [e.part(index, first, 64 // each) for first in range(0, index.lanes, 64 // each)]
    return [e.bits(e.gather(table, part, {8: I64, 4: I32}[each]), vec(I8, 64)) for part in parts]


class Signed(Quant):
    """Blocks of 256 weights: a grid of sizes up to `offset`, and signs.  w = scale * (code - offset)."""

    block = 256

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        signs, scales = self.signs(e, w), self.scales(e, w)
        chunks = []
        for j, raised in enumerate(entries(e, self.name, self.offset, 1, self.index(e, w))):
            negative = e.flags(e.lane(signs, j))
            chunks.append(e.select(negative, e.const(raised.kind, 2 * self.offset) - raised, raised))
        return Codes(chunks, scales, scales * -float(self.offset))

    def index(self, e: Emitter, w: Value) -> Value:
        """u8 or u16 [entries] of the block at `w`."""
        raise NotImplementedError

    def signs(self, e: Emitter, w: Value) -> Value:
        """i64[4]: bit i of word j is set where weight 64j + i is negative."""
        raise NotImplementedError

    def scales(self, e: Emitter, w: Value) -> Value:
        """f32[groups]"""
        raise NotImplementedError


def even(e: Emitter, seven: Value) -> Value:
    """i64[4] of signs in seven bits of every byte, 32 of them: the eighth bit makes the number of negative weights
    even."""
    x = e.bits(seven, vec(I64, 4))
    odd = x ^ (x >> 4)
    odd = odd ^ (odd >> 2)
    odd = odd ^ (odd >> 1)
    return x | ((odd & 0x0101010101010101) << 7)


def sevens(e: Emitter, words: Value) -> Value:
    """i64[4] of signs in the four lowest seven bits of i32[8]."""
    low, high = (words & 0x7F) | ((words << 1) & 0x7F00), ((words << 2) & 0x7F0000) | ((words << 3) & 0x7F000000)
    return even(e, low | high)


def plus_half(e: Emitter, steps: Value, d: Value) -> Value:
    return (e.to_float(steps) + 0.5) * d


def product(e: Emitter, steps: Value, d: Value) -> Value:
    return e.to_float(steps) * d


class IQ2_XXS(Signed):
    """d f16, then for each group of 32: indices u8[4] and a word of signs (4 times 7 bits) and scale (4 bits).

    w = d * (scale + 1/2) / 4 * grid."""

    name, bytes, largest, offset = "IQ2_XXS", 66, 86, 43

    def words(self, e: Emitter, w: Value, which: int) -> Value:
        return e.pick(e.load(w + 2, vec(I32, 16)), range(which, 16, 2))

    def index(self, e: Emitter, w: Value) -> Value:
        return e.bits(self.words(e, w, 0), vec(I8, 32))

    def signs(self, e: Emitter, w: Value) -> Value:
        return sevens(e, self.words(e, w, 1))

    def scales(self, e: Emitter, w: Value) -> Value:
        return plus_half(e, self.words(e, w, 1) >> 28, half(e, w, 8) * 0.25)


class IQ2_XS(Signed):
    """d f16, words u16[32] of index (9 bits) and signs (7), scales u8[8] (16 nibbles): as IQ2_XXS, groups of 16."""

    name, bytes, group, largest, offset = "IQ2_XS", 74, 16, 86, 43

    def index(self, e: Emitter, w: Value) -> Value:
        return e.load(w + 2, vec(I16, 32)) & 511

    def signs(self, e: Emitter, w: Value) -> Value:
        return even(e, e.narrow(e.load(w + 2, vec(I16, 32)) >> 9, vec(I8, 32)))

    def scales(self, e: Emitter, w: Value) -> Value:
        return product(e, *self.steps(e, w))

    def steps(self, e: Emitter, w: Value) -> tuple[Value, Value]:
        return (packed(e, w + 66, 16) << 1) | 1, half(e, w, 16) * 0.125


class IQ2_S(Signed):
    """d f16, indices u8[32], signs u8[32], upper bit pairs of the indices u8[8], scales u8[8]: as IQ2_XS."""

    name, bytes, group, largest, offset = "IQ2_S", 82, 16, 86, 43

    def index(self, e: Emitter, w: Value) -> Value:
        four = e.pick(e.load(w + 66, vec(I8, 8)), [k // 4 for k in range(32)])
        high = e.widen(four, vec(I16, 32)) << e.const(vec(I16, 32), (8, 6, 4, 2) * 8)
        return e.widen(e.load(w + 2, vec(I8, 32)), high.kind) | (high & 0x300)

    def signs(self, e: Emitter, w: Value) -> Value:
        return e.load(w + 34, vec(I64, 4))

    def scales(self, e: Emitter, w: Value) -> Value:
        return product(e, *self.steps(e, w))

    def steps(self, e: Emitter, w: Value) -> tuple[Value, Value]:
        return (packed(e, w + 74, 16) << 1) | 1, half(e, w, 16) * 0.125


class IQ3_XXS(Signed):
    """d f16, indices u8[64], words u32[8] of signs (4 times 7 bits) and scale (4 bits), groups of 32.

    w = d * (scale + 1/2) / 2 * grid."""

    name, bytes, largest, offset = "IQ3_XXS", 98, 124, 62

    def index(self, e: Emitter, w: Value) -> Value:
        return e.load(w + 2, vec(I8, 64))

    def signs(self, e: Emitter, w: Value) -> Value:
        return sevens(e, e.load(w + 66, vec(I32, 8)))

    def scales(self, e: Emitter, w: Value) -> Value:
        return plus_half(e, e.load(w + 66, vec(I32, 8)) >> 28, half(e, w, 8) * 0.5)


class IQ3_S(Signed):
    """d f16, indices u8[64], their top bits u8[8], signs u8[32], scales u8[4] (8 nibbles), groups of 32.

    w = d * (2 scale + 1) * grid."""

    name, bytes, largest, offset = "IQ3_S", 110, 30, 15

    def index(self, e: Emitter, w: Value) -> Value:
        top = e.flags(e.load(w + 66, I64))
        return e.widen(e.load(w + 2, vec(I8, 64)), vec(I16, 64)) | e.select(top, e.const(vec(I16, 64), 256), 0)

    def signs(self, e: Emitter, w: Value) -> Value:
        return e.load(w + 74, vec(I64, 4))

    def scales(self, e: Emitter, w: Value) -> Value:
        return e.to_float((packed(e, w + 106, 8) << 1) | 1) * half(e, w, 8)


class IQ1_S(Quant):
    """d f16, indices u8[32], words u16[8] of upper index bits (4 times 3), scale (3 bits) and the sign of delta,
    groups of 32.

    w = d * (2 scale + 1) * (grid + delta), delta = +-1/8; codes are grid + 1."""

    name, block, bytes, largest = "IQ1_S", 256, 50, 2

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        words = e.load(w + 34, vec(I16, 8))
        high = (e.pick(words, [k // 4 for k in range(32)]) >> e.const(vec(I16, 32), (0, 3, 6, 9) * 8)) & 7
        index = e.widen(e.load(w + 2, vec(I8, 32)), high.kind) | (high << 8)
        wide = e.widen(words, vec(I32, 8))
        scales = e.to_float(((wide >> 11) & 14) | 1) * half(e, w, 8)
        low = e.select(wide >= 0x8000, e.const(scales.kind, -1.125), -0.875)
        return Codes(entries(e, self.name, 1, 1, index), scales, scales * low)


class IQ1_M(Quant):
    """Indices u8[32], nibbles u8[16] of 3 upper index bits and the sign of delta, words u16[4] of 4 scales and 4
    bits of d.

    w = d * (2 scale + 1) * (grid + delta), delta = +-1/8, groups of 16; codes are 8 (grid + delta) + 9."""

    name, block, bytes, group, largest, offset = "IQ1_M", 256, 56, 16, 18, 9

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        two = e.pick(e.load(w + 32, vec(I8, 16)), [k // 2 for k in range(32)])
        high = e.widen(two, vec(I16, 32)) << e.const(vec(I16, 32), (8, 4) * 16)
        index = e.widen(e.load(w, vec(I8, 32)), high.kind) | (high & 0x700)
        chunks = []
        for j, positive in enumerate(entries(e, self.name, 10, 8, index)):  # 2, 10 or 18: bit 1 is that of delta
            bits = e.splat(e.load(w + (32 + 4 * j), I32), 8) >> e.const(vec(I32, 8), range(3, 32, 4))
            negative = -e.widen(bits & 1, vec(I64, 8)) & 0x0202020202020202
            chunks.append(positive ^ e.bits(negative, positive.kind))
        scales = product(e, *self.steps(e, w))
        return Codes(chunks, scales, scales * -float(self.offset))

    def steps(self, e: Emitter, w: Value) -> tuple[Value, Value]:
        four = e.load(w + 48, I64)
        d = ((four >> 12) & 0xF) | ((four >> 24) & 0xF0) | ((four >> 36) & 0xF00) | ((four >> 48) & 0xF000)
        d = e.pick(e.half_to_float(e.bits(e.narrow(d, I16), vec(I16, 1))), [0] * 16)
        words = e.widen(e.pick(e.load(w + 48, vec(I16, 4)), [g // 4 for g in range(16)]), vec(I32, 16))
        steps = (words >> e.const(words.kind, (0, 3, 6, 9) * 4)) & 7
        return (steps << 1) | 1, d * 0.125


TYPES = (IQ1_S(), IQ1_M(), IQ2_XXS(), IQ2_XS(), IQ2_S(), IQ3_XXS(), IQ3_S())
