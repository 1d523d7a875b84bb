"""Types whose four bits choose one of 16 levels: IQ4_NL, IQ4_XS, MXFP4, NVFP4.

Source of the layouts: block_iq4_nl and its neighbours in ggml.  Levels are whole numbers; codes are levels raised to
begin at zero.
"""

from collections.abc import Sequence

from edgeinfer.formats.grids import FP4_LEVELS, IQ4_LEVELS
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants.legacy import Legacy
from edgeinfer.simd_kernels.quants.loads import blended, blends, words
from edgeinfer.simd_kernels.quants.quant import Codes, Quant, Weights
from edgeinfer.simd_kernels.quants.stepped import kept, spread
from edgeinfer.simd_kernels.values import F32, I8, I16, I32, Value, vec

IQ4_OFFSET, FP4_OFFSET = 128, 12
IQ4_CODES = [level + IQ4_OFFSET for level in IQ4_LEVELS]
FP4_CODES = [level + FP4_OFFSET for level in FP4_LEVELS]


def iq4_codes(e: Emitter, x: Value) -> Value:
    """Codes of numbers 0 to 15, looked up as `dot` multiplies them."""
    centre = e.centre(True)
    return e.lookup([code ^ centre for code in IQ4_CODES], x) ^ -centre


class IQ4_NL(Legacy):
    """d f16, nibbles u8[16]: w = d * level."""

    name, bytes, largest, offset, nibbles = "IQ4_NL", 18, max(IQ4_CODES), IQ4_OFFSET, 2
    smallest = min(IQ4_CODES)

    def codes(self, e: Emitter, w: Value, blocks: int) -> list[Value]:
        return [iq4_codes(e, chunk) for chunk in super().codes(e, w, blocks)]


class MXFP4(Legacy):
    """Exponent u8 (E8M0), nibbles u8[16]: w = 2 ** (exponent - 128) * level."""

    name, bytes, largest, offset, nibbles = "MXFP4", 17, max(FP4_CODES), FP4_OFFSET, 1
    by_eight = (0, 2, 4, 6, 1, 3, 5, 7)  # that of exponents as they are found

    def codes(self, e: Emitter, w: Value, blocks: int) -> list[Value]:
        return [e.lookup(FP4_CODES, chunk) for chunk in super().codes(e, w, blocks)]

    def scales(self, e: Emitter, w: Value, turn: Sequence[int]) -> Value:
        exponents = self.exponents(e, w, turn)
        # 2 ** -128 and 2 ** -127 are subnormal, and the larger ones of these two
        return e.bits(e.maximum((exponents - 1) << 23, (exponents + 1) << 21), vec(F32, len(turn)))

    def exponents(self, e: Emitter, w: Value, turn: Sequence[int]) -> Value:
        """i32[turn]"""
        size, places = self.bytes * len(turn), tuple(self.bytes * block for block in turn)
        if e.tier.lanes == 8 and len(turn) == 8:
            found, at = blended(e, w, blends(size, places, 1))
            lanes = [32 if byte else at[place] for place in places for byte in range(4)]
            chars = e.bits(found, vec(I8, 32))
            return e.bits(e.pick(chars, lanes, e.const(chars.kind)), found.kind)
        if len(turn) < 8 or e.tier.lanes < 16:
            return e.widen(words(e, w, size, places, I8), vec(I32, len(turn)))
        fours = [e.load(w + self.bytes * k, vec(I32, 16)) for k in (0, 4)]  # bytes 0, 17, 34 and 51
        found = e.pick(fours[0], range(0, 32, 4), fours[1])
        return (found >> e.const(found.kind, [0, 8, 16, 24] * 2)) & 255


class IQ4_XS(Quant):
    """d f16, upper scale bits u16, lower ones u8[4], nibbles u8[128]: w = d * (scale - 32) * level, groups of 32.

    Bit pair g and nibble g are the scale of group g; bytes 16g..16g+15 hold its weights 0..15 low and 16..31 high."""

    name, block, bytes, largest, offset = "IQ4_XS", 256, 136, max(IQ4_CODES), IQ4_OFFSET
    smallest = min(IQ4_CODES)

    def turn(self, e: Emitter, blocks: int) -> Sequence[int]:
        """That of the sums that are added to neighbours three times."""
        return (0, 4, 2, 6, 1, 5, 3, 7)

    def weights(self, e: Emitter, places: list[Value], blocks: int) -> list[Weights]:
        """Scales of all places are taken apart at once: of each, bytes and words are put where one shift serves four
        groups."""
        count = len(places)
        raw = e.join(*(e.load(place, vec(I8, 8)) for place in places))
        low, high = (
            e.pick(raw, [8 * place + byte for place in range(count) for byte in order])
            for order in ((4, 6, 5, 7) * 2, (2, 3) * 4)
        )
        low = e.bits(low, vec(I32, 2 * count)) >> e.const(vec(I32, 2 * count), [0, 4] * count)
        high = e.bits(high, vec(I16, 4 * count)) << e.const(vec(I16, 4 * count), [6, 2, 4, 0] * count)
        steps = e.bits(low, raw.kind) & 15 | e.bits(high >> 2, raw.kind) & 48
        d = e.half_to_float(e.pick(e.bits(raw, vec(I16, 4 * count)), range(0, 4 * count, 4)))
        found = [
            e.to_float(e.widen_signed(e.load(eight, vec(I8, 8)), vec(I32, 8))) * spread(e, one, 8)
            for eight, one in zip(*kept(e, count, steps - 32, d), strict=True)
        ]
        return [Weights(scales, scales) for scales in found]

    def factors(self, e: Emitter, w: Value, blocks: int, more: Value | None) -> list[Value]:
        chunks = []
        for half_at in (8, 72):
            raw = e.load(w + half_at, vec(I8, 64))
            chunks += [iq4_codes(e, raw & 15), iq4_codes(e, e.shift(raw, 4) & 15)]
        return chunks

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        turned, turn = self.weights(e, [w], blocks)[0].scales, self.turn(e, blocks)
        scales = e.pick(turned, [turn.index(group) for group in range(8)])
        return Codes(self.factors(e, w, blocks, None), scales, scales * -float(IQ4_OFFSET))

    def order(self, e: Emitter, blocks: int) -> Sequence[int]:
        return [8 * part + 2 * group + half for part in range(2) for half in range(2) for group in range(4)]


class NVFP4(Quant):
    """Scales u8[4] (UE4M3), nibbles u8[32]: w = scale / 2 * level, groups of 16.

    Bytes 8g..8g+7 hold weights 0..7 of group g low and 8..15 high."""

    name, block, bytes, group, batch = "NVFP4", 64, 36, 16, 4
    largest, offset = max(FP4_CODES), FP4_OFFSET

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        chunks = []
        for block in range(blocks):
            raw = e.load(w + (self.bytes * block + 4), vec(I8, 32))
            lanes = [8 * group + i for group in range(4) for _ in range(2) for i in range(8)]
            chunks.append(e.lookup(FP4_CODES, e.shift(e.pick(raw, lanes), *[0, 4] * 4) & 15))
        scales = half_ue4m3(e, e.join(*(e.load(w + self.bytes * block, vec(I8, 4)) for block in range(blocks))))
        return Codes(chunks, scales, scales * -float(FP4_OFFSET))


def half_ue4m3(e: Emitter, x: Value) -> Value:
    """f32[lanes]: half of the floats of 4 + 3 bits (exponent bias 7); 0x7F, which is not a number, is zero as in
    ggml."""
    wide = e.widen(x, vec(I32, x.lanes))
    exponent, mantissa = (wide >> 3) & 15, wide & 7
    normal = exponent > 0
    whole = e.select(normal, mantissa | 8, mantissa)
    power = e.select(normal, exponent, 1) + (127 - 11)
    numbers = e.to_float(whole) * e.bits(power << 23, vec(F32, x.lanes))
    return e.select(wide.equals(0x7F), e.const(numbers.kind), numbers)


TYPES = (IQ4_NL(), IQ4_XS(), MXFP4(), NVFP4())
