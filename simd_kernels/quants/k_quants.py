"""Types with super-blocks of 256 weights: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K.

Source of the layouts: block_q2_K and its neighbours in ggml.  Scales are themselves quantised, one (and a minimum)
for each 16 or 32 weights, and are decoded as a vector: 8 or 16 of them at once.
"""

from collections.abc import Iterator, Sequence

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants.loads import half, twice
from edgeinfer.simd_kernels.quants.panels import Group, Rows
from edgeinfer.simd_kernels.quants.quant import Codes
from edgeinfer.simd_kernels.quants.stepped import Numbers, Stepped, arrange, kept, kept_halves
from edgeinfer.simd_kernels.values import I8, I16, I32, Value, vec


def sixteens(e: Emitter, places: list[Value]) -> Value:
    """16 bytes at each of these addresses behind each other, as i32[4 * places]."""
    bytes16 = e.join(*(e.load(place, vec(I8, 16)) for place in places))
    return e.bits(bytes16, vec(I32, 4 * len(places)))


def in_fours(e: Emitter, x: Value, lanes: Sequence[int]) -> Value:
    """Of every four lanes those in the given order."""
    return e.pick(x, [first + lane for first in range(0, x.lanes, 4) for lane in lanes])


def by_fours(e: Emitter, like: Value, numbers: Sequence[int]) -> Value:
    """Four constants again and again."""
    return e.const(like.kind, list(numbers) * (like.lanes // 4))


def byte(e: Emitter, x: Value, number: int) -> Value:
    """A byte of words, i32."""
    return (x >> 8 * number) & 255


def six_bit(e: Emitter, places: list[Value]) -> list[Numbers]:
    """Of d f16, dmin f16 and 12 bytes of packed scales and minimums at each of these addresses, of Q4_K and Q5_K.

    Bytes 0-3: scales 0-3, bytes 4-7: minimums 0-3 (6 bits each; above them the top two bits of number 4-7); bytes
    8-11: low nibbles are the low bits of scales 4-7, high nibbles those of minimums 4-7."""
    count = len(places)
    words = sixteens(e, places)
    low, high = in_fours(e, words, (1, 3, 2, 3)), in_fours(e, words, (0, 1, 0, 2))
    low = low >> by_fours(e, low, (0, 0, 0, 4))
    steps = low & by_fours(e, low, (0x3F3F3F3F, 0x0F0F0F0F) * 2)
    steps = steps | ((high >> 2) & by_fours(e, high, (0, 0x30303030) * 2))
    d = floats(e, words, [8 * row + i for row in range(count) for i in (0, 1)])
    rooms, pairs = kept(e, count, e.bits(steps, vec(I8, 16 * count)), d)
    return [Numbers(d, room, d + 4, room + 8) for room, d in zip(rooms, pairs, strict=True)]


def floats(e: Emitter, x: Value, lanes: Sequence[int]) -> Value:
    """The half floats that are these lanes of `x` as i16."""
    return e.half_to_float(e.pick(e.bits(x, vec(I16, x.lanes * x.kind.element.width // 16)), lanes))


class Q4_K(Stepped):
    """d f16, dmin f16, scales u8[12], nibbles u8[128]: w = d * scale * code - dmin * minimum, groups of 32.

    Bytes 32j..32j+31 of the nibbles hold group 2j low and group 2j+1 high."""

    name, bytes, largest = "Q4_K", 144, 15
    largest_step = 63

    nibbles = 16  # where they begin
    spots = (0, 1, 4, 5, 2, 3, 6, 7)

    def numbers(self, e: Emitter, places: list[Value]) -> list[Numbers]:
        return six_bit(e, places)

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        return Codes(self.codes(e, w, range(8)), *self.weights_of(e, w))

    def factors(self, e: Emitter, w: Value, blocks: int, more: Value | None) -> list[Value]:
        return self.codes(e, w, self.arranged(e))

    def codes(self, e: Emitter, w: Value, spots: Sequence[int]) -> list[Value]:
        """Chunks whose eights stand in this order."""
        raws = [arrange(e, e.load(w + (self.nibbles + 64 * j), vec(I8, 64)), spots) for j in range(2)]
        return [part & 15 for raw in raws for part in (raw, e.shift(raw, 4))]

    def groups(self, e: Emitter, rows: Rows) -> Iterator[Group]:
        head, scale, minimum, both = rows.words(0)
        d, low = (e.half_to_float(e.narrow(some, vec(I16, rows.lanes))) for some in (head, head >> 16))
        scales, minimums = (
            [some & 0x3F3F3F3F, (rest & 0x0F0F0F0F) | ((some >> 2) & 0x30303030)]
            for some, rest in ((scale, both), (minimum, both >> 4))
        )
        for pair in range(4):
            raw = rows.words(self.nibbles + 32 * pair) + rows.words(self.nibbles + 16 + 32 * pair)
            for high in range(2):
                numbers = (byte(e, some[pair // 2], 2 * (pair % 2) + high) for some in (scales, minimums))
                step, least = (e.to_float(number) for number in numbers)
                yield Group(step * d, [(word >> 4 * high) & 0x0F0F0F0F for word in raw], least * -low)

    def order(self, e: Emitter, blocks: int) -> Sequence[int]:
        """Groups 0 and 2, 1 and 3, 4 and 6, 5 and 7."""
        return [2 * group + half for group in (0, 2, 1, 3, 4, 6, 5, 7) for half in range(2)]

    def by_word(self, e: Emitter, w: Value) -> list[Value] | None:
        """Bytes are put in order before they are halves of two groups' codes: half the shuffles."""
        if e.tier.lanes < 16 or self.bytes != Q4_K.bytes:
            return None
        first, after = (e.load(w + (self.nibbles + 64 * j), vec(I32, 16)) for j in range(2))
        pairs = [[8 * (g // 2) + word for word in (two, two + 1) for g in range(8)] for two in range(0, 8, 2)]
        moves = e.const(first.kind, [0, 4] * 8)
        return [(e.pick(first, lanes, after) >> moves) & 0x0F0F0F0F for lanes in pairs]


class Q5_K(Q4_K):
    """As Q4_K with top bits u8[32] before the nibbles: bit g of byte i is the fifth bit of weight i of group g."""

    name, bytes, largest, nibbles = "Q5_K", 176, 31, 48

    def groups(self, e: Emitter, rows: Rows) -> Iterator[Group]:
        top = rows.words(16) + rows.words(32)
        for g, group in enumerate(super().groups(e, rows)):
            bits = ((word << 4 - g if g < 4 else word >> g - 4) & 0x10101010 for word in top)
            yield group._replace(words=[low | high for low, high in zip(group.words, bits, strict=True)])

    def codes(self, e: Emitter, w: Value, spots: Sequence[int]) -> list[Value]:
        top = arrange(e, twice(e, e.load(w + 16, vec(I8, 32))), spots)
        moves = ((-4, -2), (-3, -1), (0, 2), (1, 3))
        bits = [e.shift(top, *(move[spot // 4] for spot in spots)) & 16 for move in moves]
        return [low | high for low, high in zip(super().codes(e, w, spots), bits, strict=True)]


class Q6_K(Stepped):
    """Low nibbles u8[128], top bits u8[64], scales i8[16], d f16: w = d * scale * (code - 32), groups of 16.

    Each half (128 weights) has 64 nibble bytes: weights 0-63 low, 64-127 high; and 32 bytes whose bit pairs 0, 1, 2,
    3 belong to its weights 0-31, 32-63, 64-95, 96-127."""

    name, bytes, group, largest, offset = "Q6_K", 210, 16, 63, 32
    signed, largest_step = True, 128

    def numbers(self, e: Emitter, places: list[Value]) -> list[Numbers]:
        ones = kept_halves(e, [place + 208 for place in places])
        return [Numbers(d, place + 192) for d, place in zip(ones, places, strict=True)]

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

    def groups(self, e: Emitter, rows: Rows) -> Iterator[Group]:
        *after, last = rows.words(194)  # scales 2 to 13, then two of them and d
        first = rows.words(186)[1] >> 16  # scales 0 and 1, after other bytes
        d = e.half_to_float(e.narrow(last >> 16, vec(I16, rows.lanes)))
        kind = vec(I8, 4 * rows.lanes)
        for part in range(2):
            top = [word for at in (0, 16) for word in rows.words(128 + 32 * part + at)]
            raw = [word for at in (0, 16, 32, 48) for word in rows.words(64 * part + at)]
            for number in range(8):  # of 16 weights
                pair, at = number // 2, 4 * (number % 2)
                low = [(word >> 4 * (pair // 2)) & 0x0F0F0F0F for word in raw[8 * (pair % 2) + at :][:4]]
                high = [shifted(word, 2 * pair - 4) & 0x30303030 for word in top[at:][:4]]
                codes = [e.bits(e.bits(x | y, kind) - 32, x.kind) for x, y in zip(low, high, strict=True)]
                place = 8 * part + number - 2
                step = byte(e, first, place + 2) if place < 0 else byte(e, [*after, last][place // 4], place % 4)
                yield Group(d, codes, step=(step ^ 128) - 128)


def shifted(x: Value, count: int) -> Value:
    """Bits of words shifted right, or left where the count is negative."""
    return x >> count if count > 0 else x << -count


class TwoBit(Stepped):
    """Where Q2_K and Q3_K agree: each half (128 weights) has 32 bytes whose bit pair p holds its weights
    32p..32p+31."""

    group = 16
    times = (1, 4, 1, 4)  # of bits that are not shifted to their codes' place
    spots = (0, 4, 2, 6, 1, 5, 3, 7)
    pairs: int  # where the 64 bytes begin

    def two_bits(self, e: Emitter, w: Value) -> list[Value]:
        raw = e.load(w + self.pairs, vec(I8, 64))
        return [e.shift(raw, 2 * pair) & 3 for pair in range(4)]

    def words(self, rows: Rows) -> Iterator[list[Value]]:
        """The words of each group's bit pairs."""
        for part in range(0, 64, 32):
            raw = rows.words(self.pairs + part) + rows.words(self.pairs + part + 16)
            yield from ([(x >> move) & 0x03030303 for x in raw[at : at + 4]] for move in (0, 2, 4, 6) for at in (0, 4))

    def factors(self, e: Emitter, w: Value, blocks: int, more: Value | None) -> list[Value]:
        raw = arrange(e, e.load(w + self.pairs, vec(I8, 64)), self.arranged(e))
        return [part & mask for part in (raw, e.shift(raw, 4)) for mask in (3, 12)]

    def order(self, e: Emitter, blocks: int) -> Sequence[int]:
        """Bit pair by bit pair, of both halves."""
        return [8 * part + 2 * pair + half for pair in range(4) for part in range(2) for half in range(2)]


class Q2_K(TwoBit):
    """Scales u8[16] (low nibble scale, high nibble minimum), bit pairs u8[64], d f16, dmin f16.

    w = d * scale * code - dmin * minimum."""

    name, bytes, largest, pairs = "Q2_K", 84, 3, 16
    largest_step = 15

    def numbers(self, e: Emitter, places: list[Value]) -> list[Numbers]:
        count = len(places)
        packed = e.join(*(e.load(place, vec(I8, 16)) for place in places))
        halves = e.join(*(e.load(place + 80, vec(I32, 1)) for place in places))
        d = floats(e, halves, range(2 * count))
        ones, rooms, least = kept(e, count, d, packed & 15, e.shift(packed, 4) & 15)
        return [Numbers(d, room, d + 4, low) for d, room, low in zip(ones, rooms, least, strict=True)]

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        packed = e.widen(e.load(w, vec(I8, 16)), vec(I32, 16))
        d = e.half_to_float(e.load(w + 76, vec(I16, 4)))  # after four bytes of bit pairs
        scales = e.to_float(packed & 15) * e.pick(d, [2] * 16)
        minimums = e.to_float(packed >> 4) * -e.pick(d, [3] * 16)
        return Codes(self.two_bits(e, w), scales, minimums)

    def groups(self, e: Emitter, rows: Rows) -> Iterator[Group]:
        both, last = rows.words(0), rows.words(68)[3]
        d, low = (e.half_to_float(e.narrow(some, vec(I16, rows.lanes))) for some in (last, last >> 16))
        for number, words in enumerate(self.words(rows)):
            step = byte(e, both[number // 4], number % 4)
            yield Group(d, words, e.to_float(step >> 4) * -low, step & 15)


class Q3_K(TwoBit):
    """Top bits u8[32], bit pairs u8[64], scales u8[12] (16 of 6 bits), d f16: w = d * (scale - 32) * (code - 4).

    Bit g of top byte i is the third bit of weight 32g + i.  Of the scales, bytes 0-7 hold low bits (nibbles low:
    scales 0-7, high: 8-15) and bytes 8-11 top bits (bit pair p of byte 8 + i: scale 4p + i)."""

    name, bytes, largest, pairs, offset = "Q3_K", 110, 7, 32, 4
    signed, largest_step = True, 32

    def numbers(self, e: Emitter, places: list[Value]) -> list[Numbers]:
        count = len(places)
        words = sixteens(e, [place + 94 for place in places])  # the scales, after two other bytes and before d
        raw = e.bits(words, vec(I8, 16 * count))
        low, high = (
            e.bits(e.pick(raw, [16 * row + 2 + byte for row in range(count) for byte in order]), words.kind)
            for order in ([*range(8)] * 2, [*range(8, 12)] * 4)
        )
        low = (low >> by_fours(e, low, (0, 0, 4, 4))) & 0x0F0F0F0F
        high = ((high << by_fours(e, high, (4, 2, 0, 0))) >> by_fours(e, high, (0, 0, 0, 2))) & 0x30303030
        steps = e.bits(low | high, raw.kind) - 32
        ones, rooms = kept(e, count, floats(e, words, [8 * row + 7 for row in range(count)]), steps)
        return [Numbers(*pair) for pair in zip(ones, rooms, strict=True)]

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        top = twice(e, e.load(w, vec(I8, 32)))
        chunks = [code | (e.shift(top, pair - 2, pair + 2) & 4) for pair, code in enumerate(self.two_bits(e, w))]
        return Codes(chunks, *self.weights_of(e, w))

    def groups(self, e: Emitter, rows: Rows) -> Iterator[Group]:
        """Both factors have their sign changed: then no product of codes with steps is above 127."""
        low, high, top = rows.words(92)[1:]
        steps = [(x >> move) & 0x0F0F0F0F for move in (0, 4) for x in (low, high)]
        steps = [x | (shifted(top, 2 * pair - 4) & 0x30303030) for pair, x in enumerate(steps)]
        d = e.half_to_float(e.narrow(rows.words(94)[3] >> 16, vec(I16, rows.lanes)))
        tops, kind = rows.words(0) + rows.words(16), vec(I8, 4 * rows.lanes)
        for number, words in enumerate(self.words(rows)):
            bits = (shifted(x, number // 2 - 2) & 0x04040404 for x in tops[4 * (number % 2) :][:4])
            codes = [e.bits(e.bits(x | y, kind) - 4, x.kind) for x, y in zip(words, bits, strict=True)]
            yield Group(-d, codes, step=-(byte(e, steps[number // 4], number % 4) - 32))

    def factors(self, e: Emitter, w: Value, blocks: int, more: Value | None) -> list[Value]:
        top = e.shift(twice(e, e.load(w, vec(I8, 32))), -2, 2)  # bit p + 2 is of bit pair p
        top = arrange(e, top, self.arranged(e))
        moves = ((0, 4), (-1, 16), (2, 4), (1, 16))
        low = super().factors(e, w, blocks, more)
        return [code | (e.shift(top, move) & mask) for code, (move, mask) in zip(low, moves, strict=True)]


TYPES = (Q2_K(), Q3_K(), Q4_K(), Q5_K(), Q6_K())
