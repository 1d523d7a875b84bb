"""What every quantised type says about itself, and the two kernels that follow from it.

A type only unpacks: bytes of a block become 8-bit codes, and a scale and a minimum for each group of 16 or 32
weights, so that weight = scale * code + minimum.  The dot product with 8-bit activations and the panels of the
matrix multiply are the same for all.
"""

from collections.abc import Callable
from dataclasses import dataclass

from edgeinfer.simd_kernels.emit import F32, I8, I16, I32, I64, Emitter, Value, vec

PREFETCH = 4096  # bytes ahead of the weights in use: the hardware prefetcher stops at the borders of 4 kB pages


@dataclass(frozen=True)
class Codes:
    """Some blocks, unpacked.  Weight i of group g = i // group is scales[g] * code[i] + minimums[g]."""

    chunks: list[Value]  # u8[64] each, in the weights' order; a single u8[32] for one block of 32
    scales: Value  # f32[groups]
    minimums: Value  # f32[groups]


Take = Callable[[Value, int, Codes], None]  # take(first weight, blocks, codes)


class Quant:
    """A quantised tensor type.  `load` is all that a type must say."""

    name: str
    block: int  # weights
    bytes: int  # of a block
    group: int = 32  # weights that share a scale: 32 or 16
    wide: bool = False  # codes above 127 occur
    batch: int = 1  # blocks unpacked at once in the main loop

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        """Unpack so many blocks (1 or `batch`) from address `w`."""
        raise NotImplementedError

    def dot(self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value) -> None:
        """out f32[rows] = rows of weights at `w` times one quantised row of activations (layout in activation.py)."""
        self._dot(e, w, row_bytes, rows, x, cols, out, False)

    def dot_fine(self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value) -> None:
        """As `dot`, of activations in their fine form."""
        self._dot(e, w, row_bytes, rows, x, cols, out, True)

    def _dot(
        self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value, fine: bool
    ) -> None:
        with e.loop(0, rows) as row:
            sums = RowSums(e, self, x, cols, fine)
            self._walk(e, w + row * row_bytes, cols, sums.take)
            e.store(sums.total(), out + row * 4)

    def unpack(self, e: Emitter, w: Value, cols: Value, codes: Value, scales: Value, minimums: Value) -> None:
        """codes u8[cols], scales and minimums f32[cols / group] of one row's `cols` weights at `w`."""

        def keep(k: Value, _: int, unpacked: Codes) -> None:
            at = codes + k
            for chunk in unpacked.chunks:
                e.store(chunk, at)
                at = at + chunk.lanes
            first = k >> {32: 3, 16: 2}[self.group]  # 4 bytes for each group
            e.store(unpacked.scales, scales + first)
            e.store(unpacked.minimums, minimums + first)

        self._walk(e, w, cols, keep)

    def _walk(self, e: Emitter, w: Value, cols: Value, take: Take) -> None:
        """Give all blocks of a row to `take`: by `batch`, then what is left by half as many, down to one."""
        start, blocks = e.const(I64, 0), self.batch
        while blocks:
            stop = cols & -(self.block * blocks)
            with e.loop(start, stop, blocks * self.block) as k:
                at = w + (k >> (self.block.bit_length() - 1)) * self.bytes
                for line in range(0, blocks * self.bytes, 64):
                    e.prefetch(at + (PREFETCH + line))
                take(k, blocks, self.load(e, at, blocks))
            start, blocks = stop, blocks // 2


class RowSums:
    """The running sums of one row: scaled products by lane, minimums by group."""

    def __init__(self, e: Emitter, quant: Quant, x: Value, cols: Value, fine: bool) -> None:
        self.e, self.quant, self.x = e, quant, x
        self.planes = [x, x + cols + (cols >> 1)] if fine else [x]
        self.d = x + cols
        self.sums = self.d + (cols >> (3 if quant.group == 32 else 2))
        self.products = [e.var(vec(F32, 16)) for _ in range(2)]  # two chains, so that additions overlap
        self.low = e.var(vec(F32, quant.batch * quant.block // quant.group))

    def take(self, k: Value, blocks: int, codes: Codes) -> None:
        e, group = self.e, self.quant.group
        groups, n32 = codes.scales.lanes, blocks * self.quant.block // 32
        d = e.load(self.d + (k >> 3), vec(F32, n32))
        if groups != n32:
            d = e.pick(d, [g // 2 for g in range(groups)])
        sums = e.load(self.sums + (k >> (3 if group == 32 else 2)), vec(F32, groups))
        minimums = e.centred(codes.minimums, codes.scales, self.quant.wide)
        lanes = self.low.kind.count
        self.low.set(e.fma(e.fold(minimums, lanes), e.fold(sums, lanes), self.low.get()))
        scales = codes.scales * d
        for j, chunk in enumerate(codes.chunks):
            n = chunk.lanes
            total = e.const(vec(I32, n // 4))
            for plane in self.planes:
                total = e.dot(total << 8, chunk, e.load(plane + (k + 64 * j), vec(I8, n)), self.quant.wide)
            exact = e.to_float(total)
            scale = e.pick(scales, [(64 * j + 4 * lane) // group for lane in range(n // 4)])
            chain = self.products[j % 2]
            chain.set(e.fma(e.fold(exact, 16), e.fold(scale, 16), chain.get()))

    def total(self) -> Value:
        e = self.e
        products, low = e.fold(self.products[0].get() + self.products[1].get(), 4), e.fold(self.low.get(), 4)
        return e.total(products + low)


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
