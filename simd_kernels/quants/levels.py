"""Types whose four bits choose one of 16 levels: IQ4_NL, IQ4_XS, MXFP4, NVFP4.

Source of the layouts: block_iq4_nl and its neighbours in ggml.  Levels are whole numbers; codes are levels raised to
begin at zero.
"""

from collections.abc import Sequence

from edgeinfer.formats.grids import FP4_LEVELS, IQ4_LEVELS
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants.legacy import Legacy
from edgeinfer.simd_kernels.quants.quant import Codes, Quant, half, packed
from edgeinfer.simd_kernels.values import F32, I8, I16, I32, Value, vec

IQ4_OFFSET, FP4_OFFSET = 127, 12
IQ4_CODES = [level + IQ4_OFFSET for level in IQ4_LEVELS]
FP4_CODES = [level + FP4_OFFSET for level in FP4_LEVELS]


def iq4_codes(e: Emitter, x: Value) -> Value:
    """Codes of numbers 0 to 15, looked up as `dot` multiplies them."""
    centre = e.centre(True)
    return e.lookup([code ^ centre for code in IQ4_CODES], x) ^ -centre


class IQ4_NL(Legacy):
    """d f16, nibbles u8[16]: w = d * level."""

    name, bytes, largest, offset, nibbles = "IQ4_NL", 18, max(IQ4_CODES), IQ4_OFFSET, 2

    def codes(self, e: Emitter, w: Value, blocks: int) -> list[Value]:
        return [iq4_codes(e, chunk) for chunk in super().codes(e, w, blocks)]


class MXFP4(Legacy):
    """Exponent u8 (E8M0), nibbles u8[16]: w = 2 ** (exponent - 128) * level."""

    name, bytes, largest, offset, nibbles = "MXFP4", 17, max(FP4_CODES), FP4_OFFSET, 1

    def codes(self, e: Emitter, w: Value, blocks: int) -> list[Value]:
        return [e.lookup(FP4_CODES, chunk) for chunk in super().codes(e, w, blocks)]

    def scales(self, e: Emitter, w: Value, blocks: int) -> Value:
        exponents = self.exponents(e, w, blocks)
        # 2 ** -128 and 2 ** -127 are subnormal, and the larger ones of these two
        return e.bits(e.maximum((exponents - 1) << 23, (exponents + 1) << 21), vec(F32, blocks))

    def exponents(self, e: Emitter, w: Value, blocks: int) -> Value:
        """i32[blocks]"""
        if blocks < 8 or e.tier.lanes < 16:
            return e.widen(e.join(*(e.load(w + self.bytes * k, vec(I8, 1)) for k in range(blocks))), vec(I32, blocks))
        fours = [e.load(w + self.bytes * k, vec(I32, 16)) for k in range(0, blocks, 4)]  # bytes 0, 17, 34 and 51
        words = e.pick(fours[0], range(0, 32, 4), fours[1])
        return (words >> e.const(words.kind, [0, 8, 16, 24] * 2)) & 255


class IQ4_XS(Quant):
    """d f16, upper scale bits u16, lower ones u8[4], nibbles u8[128]: w = d * (scale - 32) * level, groups of 32.

    Bit pair g and nibble g are the scale of group g; bytes 16g..16g+15 hold its weights 0..15 low and 16..31 high."""

    name, block, bytes, largest, offset = "IQ4_XS", 256, 136, max(IQ4_CODES), IQ4_OFFSET

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        high = e.splat(e.widen(e.load(w + 2, I16), I32), 8) >> e.const(vec(I32, 8), range(0, 16, 2))
        steps = packed(e, w + 4, 8) | ((high & 3) << 4)
        scales = (e.to_float(steps) - 32.0) * half(e, w, 8)
        chunks = []
        for half_at in (8, 72):
            raw = e.load(w + half_at, vec(I8, 64))
            chunks += [iq4_codes(e, raw & 15), iq4_codes(e, e.shift(raw, 4) & 15)]
        return Codes(chunks, scales, scales * -float(IQ4_OFFSET))

    def order(self, blocks: int) -> Sequence[int]:
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
