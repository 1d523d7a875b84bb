"""What every quantised type says about itself, and the two kernels that follow from it.

A type only unpacks: bytes of a block become 8-bit codes, and a scale and a minimum for each group of 16 or 32
weights, so that weight = scale * code + minimum.  The dot product with 8-bit activations and the panels of the
matrix multiply are the same for all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgeinfer.simd_kernels.emit import F32, I8, I16, I32, I64, Emitter, Value, vec
from edgeinfer.simd_kernels.quants import few
from edgeinfer.simd_kernels.quants.streams import AHEAD, side_by_side, streams

PREFETCH = 4096  # bytes ahead of the weights in use where one row is read after the other


@dataclass(frozen=True)
class Codes:
    """Some blocks, unpacked.  Weight i of group g = i // group is scales[g] * code[i] + minimums[g]."""

    chunks: list[Value]  # u8[64] each, or less of a few small blocks; in them sixteens of weights in the type's `order`
    scales: Value  # f32[groups]
    minimums: Value  # f32[groups]


class Quant:
    """A quantised tensor type.  `load` is all that a type must say."""

    name: str
    block: int  # weights
    bytes: int  # of a block
    group: int = 32  # weights that share a scale: 32 or 16
    wide: bool = False  # codes above 127 occur
    batch: int = 1  # blocks unpacked at once in the main loop
    offset: int = 0  # where all minimums are that many scales below zero: weight = scale * (code - offset)

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        """Unpack so many blocks (1 or `batch`) from address `w`."""
        raise NotImplementedError

    def order(self, blocks: int) -> Sequence[int]:
        """Which sixteen weights stand at each 16 codes of the chunks: as it suits the layout."""
        return range(blocks * self.block // 16)

    def dot(self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value) -> None:
        """out f32[rows] = rows of weights at `w` times one quantised row of activations (layout in activation.py)."""
        self._dot(e, w, row_bytes, rows, x, cols, out, False)

    def dot_fine(self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value) -> None:
        """As `dot`, of activations in their fine form."""
        self._dot(e, w, row_bytes, rows, x, cols, out, True)

    def few(self, e: Emitter, *places: Value) -> None:
        """As `dot`, of several rows of activations; `places` as few.few has them."""
        few.few(e, self, False, *places)

    def few_fine(self, e: Emitter, *places: Value) -> None:
        """As `few`, of activations in their fine form."""
        few.few(e, self, True, *places)

    def _dot(
        self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value, fine: bool
    ) -> None:
        sums = RowSums(e, self, x, cols, fine)
        with side_by_side(e, rows) as (first, apart, count):
            sums.clear(count)
            for start, stop, blocks in self._batches(cols):
                with e.loop(start, stop, blocks * self.block) as k:
                    part = Part(sums, k, blocks)
                    at = w + first * row_bytes + self._offset(k)
                    with e.loop(0, count) as row:
                        block = at + row * apart * row_bytes
                        for line in range(0, blocks * self.bytes, 64):
                            e.prefetch(block + (AHEAD + line))
                        part.weigh(row, self.load(e, block, blocks))
                    with e.loop(0, count) as row:
                        part.multiply(row, self.load(e, at + row * apart * row_bytes, blocks).chunks)
            with e.loop(0, count) as row:
                e.store(sums.total(row), out + (first + row * apart) * 4)

    def unpack(self, e: Emitter, w: Value, cols: Value, codes: Value, scales: Value, minimums: Value) -> None:
        """codes i8[cols], scales and minimums f32[cols / group] of one row's `cols` weights at `w`.

        Types with an offset get codes less their offset, and minimums of zero."""

        for start, stop, blocks in self._batches(cols):
            with e.loop(start, stop, blocks * self.block) as k:
                at = w + self._offset(k)
                for line in range(0, blocks * self.bytes, 64):
                    e.prefetch(at + (PREFETCH + line), cache=2)
                unpacked = self.load(e, at, blocks)
                order = iter(self.order(blocks))
                for chunk in (chunk - self.offset for chunk in unpacked.chunks):
                    for sixteen in range(0, chunk.lanes, 16):
                        e.store(e.part(chunk, sixteen, 16), codes + (k + 16 * next(order)))
                first = k >> {32: 3, 16: 2}[self.group]  # 4 bytes for each group
                e.store(unpacked.scales, scales + first)
                e.store(e.const(unpacked.minimums.kind) if self.offset else unpacked.minimums, minimums + first)

    def _batches(self, cols: Value) -> Iterator[tuple[Value | int, Value, int]]:
        """(first column, last, blocks at a time): by `batch`, then what is left by half as many, down to one."""
        start: Value | int = 0
        blocks = self.batch
        while blocks:
            stop = cols & -(self.block * blocks)
            yield start, stop, blocks
            start, blocks = stop, blocks // 2

    def _offset(self, k: Value) -> Value:
        """Bytes from a row's beginning to its column `k`."""
        return (k >> (self.block.bit_length() - 1)) * self.bytes


ROOM = 192  # bytes of a row's sums


class RowSums:
    """The running sums of rows side by side, in memory, so that many rows need no more registers: scaled products by
    lane f32[16], minimums by group f32[up to 16], and the scales of the blocks at hand f32[up to 16]."""

    def __init__(self, e: Emitter, quant: Quant, x: Value, cols: Value, fine: bool) -> None:
        self.e, self.quant, self.x = e, quant, x
        self.planes = [x, x + cols + (cols >> 1)] if fine else [x]
        self.d = x + cols
        self.sums = self.d + (cols >> (3 if quant.group == 32 else 2))
        self.low_kind = vec(F32, quant.batch * quant.block // quant.group)
        self.memory = e.memory(ROOM * streams(e))

    def clear(self, count: Value) -> None:
        with self.e.loop(0, count * ROOM, 64) as at:
            self.e.store(self.e.const(vec(F32, 16)), self.memory + at)

    def total(self, row: Value) -> Value:
        e, at = self.e, self.memory + row * ROOM
        products, low = e.load(at, vec(F32, 16)), e.load(at + 64, self.low_kind)
        return e.total(e.fold(products, 4) + e.fold(low, 4))


class Part:
    """Some columns of all rows: the activations there, which rows share, and what is to be done for each row.

    That is in two steps, for all rows each, as scales take long until they are known: a core that looks ahead over a
    hundred instructions would find nothing else to do meanwhile."""

    def __init__(self, sums: RowSums, k: Value, blocks: int) -> None:
        e, quant = sums.e, sums.quant
        self.sums, self.e, self.order = sums, e, quant.order(blocks)
        n = blocks * quant.block
        groups = n // quant.group
        self.planes = [
            [e.load(plane + (k + 16 * number), vec(I8, 16)) for number in self.order] for plane in sums.planes
        ]
        d = e.load(sums.d + (k >> 3), vec(F32, n // 32))
        self.d = d if groups == n // 32 else e.pick(d, [g // 2 for g in range(groups)])
        low = e.load(sums.sums + (k >> (3 if quant.group == 32 else 2)), vec(F32, groups))
        self.offset = quant.offset - e.centre(quant.wide) if quant.offset else 0
        self.x_sums = low * -float(self.offset) if quant.offset else low

    def weigh(self, row: Value, codes: Codes) -> None:
        """Add the minimums, and leave the scales for `multiply`."""
        e, quant, at = self.e, self.sums.quant, self.sums.memory + row * ROOM
        minimums = codes.scales if quant.offset else e.centred(codes.minimums, codes.scales, quant.wide)
        lanes = self.sums.low_kind.count
        low = e.fma(e.fold(minimums, lanes), e.fold(self.x_sums, lanes), e.load(at + 64, self.sums.low_kind))
        e.store(low, at + 64)
        e.store(codes.scales * self.d, at + 128)

    def multiply(self, row: Value, chunks: list[Value]) -> None:
        """Add the products, by the scales that `weigh` has left."""
        e, at = self.e, self.sums.memory + row * ROOM
        scales, products = e.load(at + 128, self.d.kind), e.load(at, vec(F32, 16))
        for total, groups in self.totals(chunks):
            exact, scale = e.to_float(total), e.pick(scales, groups)
            products = e.fma(e.fold(exact, 16), e.fold(scale, 16), products)
        e.store(products, at)

    def totals(self, chunks: list[Value]) -> Iterator[tuple[Value, list[int]]]:
        """Sums of products, i32[lanes], and the group each lane is of; neighbouring chunks of the same groups are one
        sum."""
        e, group = self.e, self.sums.quant.group
        before: list[int] = []
        sums: list[Value] = []
        start = 0
        for chunk in chunks:
            stop = start + chunk.lanes // 16
            groups = [16 * self.order[start + lane // 4] // group for lane in range(chunk.lanes // 4)]
            x = [e.join(*plane[start:stop]) for plane in self.planes]
            if groups != before and before:
                yield self.joined(sums), before
            if groups != before:
                sums = [e.const(vec(I32, chunk.lanes // 4)) for _ in self.planes]
            sums = [e.dot(total, chunk, part, self.sums.quant.wide) for total, part in zip(sums, x, strict=True)]
            before, start = groups, stop
        yield self.joined(sums), before

    def joined(self, planes: list[Value]) -> Value:
        total = planes[0]
        for low in planes[1:]:
            total = (total << 8) + low
        return total


def halves(e: Emitter, w: Value, stride: int, n: int) -> Value:
    """f32[n] of the half floats at w, w + stride, ...  Gathered by integer units, which the dot products leave idle."""
    if n == 1:
        return e.half_to_float(e.load(w, vec(I16, 1)))
    kind = I32 if n == 2 else I64
    per = kind.width // 16
    words = []
    for first in range(0, n, per):
        word = e.widen(e.load(w + stride * first, I16), kind)
        for k in range(1, per):
            word = word | (e.widen(e.load(w + stride * (first + k), I16), kind) << (16 * k))
        words.append(e.bits(word, vec(I16, per)))
    return e.half_to_float(e.join(*words))


def half(e: Emitter, address: Value, lanes: int) -> Value:
    """The half float at `address` in every one of so many lanes."""
    return e.pick(e.half_to_float(e.load(address, vec(I16, 1))), [0] * lanes)


def packed(e: Emitter, address: Value, n: int) -> Value:
    """i32[n] of so many nibbles, 8 or 16, the low one of a byte first."""
    words = e.load(address, vec(I32, n // 8))
    return (e.pick(words, [k // 8 for k in range(n)]) >> e.const(vec(I32, n), [4 * (k % 8) for k in range(n)])) & 15


def twice(e: Emitter, x: Value) -> Value:
    """`x` behind itself."""
    return e.join(x, x)
