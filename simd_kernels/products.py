"""What attention multiplies, by how the cache holds K and V: query rows with keys, and weights with values.

A tile has `size` query rows; `vectors` blocks of 16 keys, or as many times 16 dims of values, lie side by side in
registers while all of them pass.  Every sum runs over the dims, or over the keys, in order, whatever the tile.  Where
there are few rows, reading the cache is what takes the time: then what lies AHEAD is asked for.
"""

from types import SimpleNamespace

from edgeinfer.simd_kernels.emit import F32, I8, I16, I32, Emitter, Value, Var, vec
from edgeinfer.simd_kernels.kv import padded, quantised
from edgeinfer.simd_kernels.layout import BLOCK, FEW_QUERIES, HEAD_ROOM, SCORES
from edgeinfer.simd_kernels.layout import KV_BYTES as BYTES
from edgeinfer.simd_kernels.rows import WIDE

AHEAD = 4096  # bytes, as blocks mostly follow each other


class Floats:
    """f32 and f16.  Queries of a tile lie as f32[key_dim][size]."""

    apart = SCORES * 4  # bytes from a row's weights to the next one's

    def __init__(self, e: Emitter, r: SimpleNamespace, size: int, kv_type: str) -> None:
        self.e, self.r, self.size, self.kv_type = e, r, size, kv_type
        self.vectors = 2 if e.tier.lanes == 16 else 1

    def query(self, row: Value, q: Value, lane: Value) -> None:
        """Row `lane` of the tile at q is the scaled query at `row`."""
        e = self.e
        with e.loop(0, self.r.key_dim) as d:
            e.store(e.load(row + d * 4, F32) * self.r.scale_f32, q + (d * self.size + lane) * 4)

    def scores(self, q: Value, blocks: list[Value], scores: Value) -> None:
        """q . k of each row with the keys of each block, [size][SCORES] numbers at `scores`."""
        e = self.e
        sums = [[e.var(WIDE) for _ in blocks] for _ in range(self.size)]
        with e.loop(0, self.r.key_dim) as d:
            ask(e, self.size, blocks[0] + d * (len(blocks) * BLOCK * BYTES[self.kv_type]))
            keys = [self._floats(block + d * (BLOCK * BYTES[self.kv_type])) for block in blocks]
            multiply(e, sums, q + d * (4 * self.size), 4, keys)
        for i, row in enumerate(sums):
            for j, total in enumerate(row):
                e.store(total.get(), scores + (i * SCORES + j * 16) * 4)

    def weights(self, block: Value, weights: Value, d: Value) -> Value:
        """Where the factors of the values of a block lie, the rows `apart`: the weights at `weights` themselves."""
        return weights

    def values(self, block: Value, key: Value, d: Value) -> list[Value]:
        """Dims d.. of token `key` of a block."""
        size = BYTES[self.kv_type]
        row = block + (key * padded(self.r.value_dim) + d) * size
        ask(self.e, self.size, row)
        return [self._floats(row + 16 * j * size) for j in range(self.vectors)]

    def _floats(self, address: Value) -> Value:
        if self.kv_type == "f16":
            return self.e.half_to_float(self.e.load(address, vec(I16, 16)))
        return self.e.load(address, WIDE)


class Codes:
    """q8_0.  Queries are codes as well, [key_dim / 4][size][4] of a tile, behind them (at HEAD_ROOM * size) for each 32
    dims f32[size] scales and i32[size] where the sum of products starts, which makes up for the keys' being raised."""

    apart = 64

    def __init__(self, e: Emitter, r: SimpleNamespace, size: int, spare: Value) -> None:
        """`spare`: room for f32[size][16]."""
        self.e, self.r, self.size, self.spare = e, r, size, spare
        self.vectors = 2 if e.tier.lanes == 16 else 1

    def query(self, row: Value, q: Value, lane: Value) -> None:
        e, size = self.e, self.size

        def take(d: Value, codes: Value, scale: Value) -> None:
            words = e.bits(codes, vec(I32, 8))
            for word in range(8):
                e.store(e.lane(words, word), q + ((d >> 2) + word) * (4 * size) + lane * 4)
            total = e.total(e.dot(e.const(vec(I32, 8)), e.const(codes.kind, 1), codes, False))
            numbers = self._scales(q, d) + lane * 4
            e.store(scale * self.r.scale_f32, numbers)
            e.store(total * (e.centre(True) - 128), numbers + 4 * size)

        quantised(e, row, self.r.key_dim, take)

    def _scales(self, q: Value, d: Value) -> Value:
        return q + HEAD_ROOM * self.size + (d >> 5) * (8 * self.size)

    def scores(self, q: Value, blocks: list[Value], scores: Value) -> None:
        e, size, width = self.e, self.size, padded(self.r.key_dim)
        places = [[scores + (i * SCORES + j * 16) * 4 for j in range(len(blocks))] for i in range(size)]
        for place in sum(places, []):
            e.store(e.const(WIDE), place)
        with e.loop(0, width, 32) as d:
            for line in range(len(blocks) * 32 * BLOCK // 64):
                ask(e, self.size, blocks[0] + d * (len(blocks) * BLOCK) + 64 * line)
            numbers = self._scales(q, d)
            starts = [e.splat(e.load(numbers + 4 * (size + i), I32), 16) for i in range(size)]
            sums = [[e.var(start.kind, start) for _ in blocks] for start in starts]
            for word in range(8):
                keys = [e.load(block + d * BLOCK + word * 64, vec(I8, 64)) for block in blocks]
                for i, row in enumerate(sums):
                    code = e.splat(e.load(q + d * size + (word * size + i) * 4, I32), 16)
                    for total, key in zip(row, keys, strict=True):
                        total.set(e.dot(total.get(), key, e.bits(code, key.kind), True))
            for j, block in enumerate(blocks):
                scales = e.half_to_float(e.load(block + width * BLOCK + (d >> 5) * (2 * BLOCK), vec(I16, 16)))
                for i in range(size):
                    factor = scales * e.splat(e.load(numbers + 4 * i, F32), 16)
                    place = places[i][j]
                    e.store(e.fma(e.to_float(sums[i][j].get()), factor, e.load(place, WIDE)), place)

    def weights(self, block: Value, weights: Value, d: Value) -> Value:
        """The weights times the values' scales: the scales of 16 tokens are the lanes of one product."""
        e = self.e
        scales = block + padded(self.r.value_dim) * BLOCK + (d >> 5) * (2 * BLOCK)
        factors = e.half_to_float(e.load(scales, vec(I16, 16)))
        for i in range(self.size):
            e.store(e.load(weights + i * SCORES * 4, WIDE) * factors, self.spare + i * self.apart)
        return self.spare

    def values(self, block: Value, key: Value, d: Value) -> list[Value]:
        e = self.e
        row = block + key * padded(self.r.value_dim) + d
        ask(e, self.size, row)
        codes = [e.load(row + 16 * j, vec(I8, 16)) for j in range(self.vectors)]
        return [e.to_float(e.widen_signed(x, vec(I32, 16))) for x in codes]


def multiply(e: Emitter, sums: list[list[Var]], numbers: Value, apart: int, vectors: list[Value]) -> None:
    """sums[i][j] += number i * vectors[j]; the numbers lie `apart` bytes from each other."""
    for i, row in enumerate(sums):
        one = e.splat(e.load(numbers + i * apart, F32), 16)
        for total, vector in zip(row, vectors, strict=True):
            total.set(e.fma(one, vector, total.get()))


def ask(e: Emitter, size: int, address: Value) -> None:
    if size == FEW_QUERIES:
        e.prefetch(address + AHEAD)
