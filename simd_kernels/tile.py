"""The inner parts of the matrix multiply: a panel of weight rows is transposed, register tiles sweep the tokens.

A panel holds `tile_rows` rows of weights with rows as lanes: codes u8[cols / 4][rows][4], scales and minimums
f32[groups][rows].  A tile keeps `tile_tokens` x `tile_rows` sums in registers, broadcasts 4 activations of a token
at a time, and needs no shuffles. The scheme is that of BLIS (https://doi.org/10.1145/2764454), with the panel
unpacked on its way into L1.
"""

from edgeinfer.simd_kernels.emit import F32, I8, I32, Emitter, Value, vec


def transpose(e: Emitter, source: Value, stride: Value, words: Value, out: Value) -> None:
    """out 32-bit [words][tile_rows] = the words of `tile_rows` rows that lie `stride` bytes apart at `source`."""
    n, rows = e.tier.lanes, e.tier.tile_rows
    whole = words & -n
    with e.loop(0, whole, n) as word:
        for first in range(0, rows, n):
            at = source + word * 4 + stride * first
            square = [e.load(at + stride * r, vec(I32, n)) for r in range(n)]
            for c, column in enumerate(turn(e, square)):
                e.store(column, out + word * (4 * rows) + 4 * (rows * c + first))
    with e.loop(whole, words) as word:
        for row in range(rows):
            e.store(e.load(source + word * 4 + stride * row, I32), out + word * (4 * rows) + 4 * row)


def turn(e: Emitter, square: list[Value]) -> list[Value]:
    """The transpose of n vectors of n lanes: swap off-diagonal halves, then quarters, down to single lanes."""
    n = len(square)
    size = n // 2
    while size:
        low = [lane if not lane & size else n + lane - size for lane in range(n)]
        high = [lane + size if not lane & size else n + lane for lane in range(n)]
        for i in range(n):
            if not i & size:
                a, b = square[i], square[i | size]
                square[i], square[i | size] = e.pick(a, low, b), e.pick(a, high, b)
        size //= 2
    return square


class Sums:
    """tile_tokens x (tile_rows / lanes) vectors of sums, read from and written back to f32 [tokens][tile_rows]."""

    def __init__(self, e: Emitter, out: Value) -> None:
        self.e, self.out = e, out
        self.vectors, self.tokens = e.tier.tile_rows // e.tier.lanes, e.tier.tile_tokens
        kind = vec(F32, e.tier.lanes)
        places = [[self._at(t, v) for v in range(self.vectors)] for t in range(self.tokens)]
        self.vars = [[e.var(kind, e.load(place, kind)) for place in row] for row in places]

    def _at(self, token: int, vector: int) -> Value:
        return self.out + 4 * (self.e.tier.tile_rows * token + self.e.tier.lanes * vector)

    def store(self) -> None:
        for t, row in enumerate(self.vars):
            for v, var in enumerate(row):
                self.e.store(var.get(), self._at(t, v))


class Tile:
    """The tile for types whose scales cover `group` weights; `wide` if their codes may exceed 127.

    `fine`: for activations in their fine form."""

    def __init__(self, group: int, wide: bool, fine: bool = False) -> None:
        self.group, self.wide, self.fine = group, wide, fine
        self.name = f"tile.{group}{'.wide' if wide else ''}{'.fine' if fine else ''}"

    def body(
        self,
        e: Emitter,
        codes: Value,
        scales: Value,
        minimums: Value,
        x: Value,
        d: Value,
        sums: Value,
        cols: Value,
        out: Value,
        x_low: Value | None = None,
    ) -> None:
        """out f32[tile_tokens][tile_rows] += panel times a tile of activations, whose low codes are at `x_low`.

        x i8[cols / 4][tile_tokens][4], d f32[cols / 32][tile_tokens], sums f32[cols / group][tile_tokens], as
        activation.quantise has them: every address is a constant away from one that only counts up, so that broadcasts
        need no address arithmetic."""
        acc = Sums(e, out)
        n, tokens, kind = e.tier.lanes, acc.tokens, vec(F32, e.tier.lanes)
        with e.loop(0, cols, self.group) as k:
            exact = [[e.const(vec(I32, n))] * acc.vectors for _ in range(tokens)]
            for plane in (x,) if x_low is None else (x, x_low):
                exact = [[total << 8 for total in row] for row in exact]
                exact = self._products(e, exact, codes + k * e.tier.tile_rows, plane + k * tokens, acc)
            g = k >> (self.group.bit_length() - 1)
            row = g * (4 * e.tier.tile_rows)
            low, high = (
                [e.load(base + row + 4 * n * v, kind) for v in range(acc.vectors)] for base in (minimums, scales)
            )
            low = [e.centred(*pair, self.wide) for pair in zip(low, high, strict=True)]
            at = (d + (k >> 5) * (4 * tokens), sums + g * (4 * tokens))
            for t, (scale, total) in enumerate(zip(*(e.spread(a, tokens, F32, n) for a in at), strict=True)):
                for v, var in enumerate(acc.vars[t]):
                    var.set(e.fma(e.to_float(exact[t][v]) * high[v], scale, e.fma(low[v], total, var.get())))
        acc.store()

    def _products(self, e: Emitter, exact: list[list[Value]], panel: Value, x: Value, acc: Sums) -> list[list[Value]]:
        """Integer sums over one group added to `exact`, i32[lanes] for each token and vector of rows."""
        n = e.tier.lanes
        for word in range(self.group // 4):
            at = panel + 4 * e.tier.tile_rows * word
            w = [e.load(at + 4 * n * v, vec(I8, 4 * n)) for v in range(acc.vectors)]
            for t, four in enumerate(e.spread(x + 4 * word * acc.tokens, acc.tokens, I32, n)):
                four = e.bits(four, vec(I8, 4 * n))
                exact[t] = [e.dot(exact[t][v], w[v], four, self.wide) for v in range(acc.vectors)]
        return exact


def tile_float(e: Emitter, numbers: Value, x: Value, stride: Value, cols: Value, out: Value) -> None:
    """out f32[tile_tokens][tile_rows] += panel f32[cols][tile_rows] times activations f32[cols], tokens `stride`
    bytes apart."""
    n = e.tier.lanes
    acc = Sums(e, out)
    rows = [x + stride * t for t in range(acc.tokens)]
    with e.loop(0, cols) as k:
        at = numbers + k * (4 * e.tier.tile_rows)
        w = [e.load(at + 4 * n * v, vec(F32, n)) for v in range(acc.vectors)]
        for t, token in enumerate(rows):
            one = e.splat(e.load(token + k * 4, F32), n)
            for v, var in enumerate(acc.vars[t]):
                var.set(e.fma(w[v], one, var.get()))
    acc.store()
