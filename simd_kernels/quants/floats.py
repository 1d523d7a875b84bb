"""F64, F32, F16 and BF16 weights: converted to float32 and multiplied as such, with float32 activations."""

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import FLOAT_DEPTH
from edgeinfer.simd_kernels.panel import transpose
from edgeinfer.simd_kernels.quants.streams import prefetch, side_by_side, streams
from edgeinfer.simd_kernels.values import F32, F64, I16, I32, I64, Value, vec

WIDE = vec(F32, 16)
STEP = 64  # numbers of a row at a time


class Float:
    """A float tensor type: how `lanes` numbers at an address become float32."""

    name: str
    bytes: int  # of one number
    block = 1

    def load(self, e: Emitter, address: Value, lanes: int) -> Value:
        raise NotImplementedError

    def dot(self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value) -> None:
        """out f32[rows] = rows of weights at `w` times x f32[cols]."""
        whole = cols & -STEP
        sums = e.memory(64 * streams(e))
        with side_by_side(e, w, row_bytes, rows) as (first, apart, count):
            with e.loop(0, count) as row:
                e.store(e.const(WIDE), sums + row * 64)
            with e.loop(0, whole, STEP) as k, e.loop(0, count) as row:
                at = w + (first + row * apart) * row_bytes + k * self.bytes
                prefetch(e, [at], STEP * self.bytes)
                chains = [e.load(sums + row * 64, WIDE), e.const(WIDE)]
                for j in range(STEP // 16):
                    numbers = self.load(e, at + 16 * j * self.bytes, 16)
                    chains[j % 2] = e.fma(numbers, e.load(x + (k + 16 * j) * 4, WIDE), chains[j % 2])
                e.store(chains[0] + chains[1], sums + row * 64)
            with e.loop(0, count) as row:
                start, rest = w + (first + row * apart) * row_bytes, e.var(vec(F32, 1))
                with e.loop(whole, cols) as k:
                    rest.set(e.fma(self.load(e, start + k * self.bytes, 1), e.load(x + k * 4, vec(F32, 1)), rest.get()))
                total = e.total(e.load(sums + row * 64, WIDE)) + e.total(rest.get())
                e.store(total, out + (first + row * apart) * 4)

    def few(
        self,
        e: Emitter,
        w: Value,
        row_bytes: Value,
        rows: Value,
        x: Value,
        x_stride: Value,
        cols: Value,
        out: Value,
        out_stride: Value,
        tokens: Value,
        scratch: Value,
    ) -> None:
        """out f32[tokens][rows] = rows of weights times rows of activations f32[cols], each summed as `dot` does.

        scratch: f32[streams][tokens][16] for sums."""
        whole = cols & -STEP
        with side_by_side(e, w, row_bytes, rows) as (first, apart, count):
            with e.loop(0, count * tokens) as i:
                e.store(e.const(WIDE), scratch + i * 64)
            with e.loop(0, whole, STEP) as k, e.loop(0, count) as row:
                at = w + (first + row * apart) * row_bytes + k * self.bytes
                prefetch(e, [at], STEP * self.bytes)
                numbers = [self.load(e, at + 16 * j * self.bytes, 16) for j in range(STEP // 16)]
                with e.loop(0, tokens) as token:
                    here, sums = x + token * x_stride + k * 4, scratch + (row * tokens + token) * 64
                    chains = [e.load(sums, WIDE), e.const(WIDE)]
                    for j, sixteen in enumerate(numbers):
                        chains[j % 2] = e.fma(sixteen, e.load(here + 64 * j, WIDE), chains[j % 2])
                    e.store(chains[0] + chains[1], sums)
            with e.loop(0, count) as row, e.loop(0, tokens) as token:
                start, here = w + (first + row * apart) * row_bytes, x + token * x_stride
                rest = e.var(vec(F32, 1))
                with e.loop(whole, cols) as k:
                    number = self.load(e, start + k * self.bytes, 1)
                    rest.set(e.fma(number, e.load(here + k * 4, vec(F32, 1)), rest.get()))
                total = e.total(e.load(scratch + (row * tokens + token) * 64, WIDE)) + e.total(rest.get())
                e.store(total, out + token * out_stride + (first + row * apart) * 4)

    def panel(
        self, e: Emitter, w: Value, row_bytes: Value, rows: Value, cols: Value, scratch: Value, out: Value
    ) -> None:
        """Columns of a panel f32[cols][tile_rows] at `out`: `rows` rows at `w`, the last of which fills up the lanes
        where there are fewer."""
        with e.loop(0, e.tier.lanes) as lane:
            row = w + e.least(lane, rows - 1) * row_bytes
            self.unpack(e, row, cols, scratch + lane * (4 * FLOAT_DEPTH), cols, cols)
        transpose(e, scratch, e.const(I64, 4 * FLOAT_DEPTH), cols, out)

    def unpack(self, e: Emitter, w: Value, cols: Value, numbers: Value, scales: Value, minimums: Value) -> None:
        """numbers f32[cols] of one row's `cols` weights at `w`; the other arguments are unused."""
        whole = cols & -16
        for start, stop, lanes in ((e.const(I64, 0), whole, 16), (whole, cols, 1)):
            with e.loop(start, stop, lanes) as k:
                e.store(self.load(e, w + k * self.bytes, lanes), numbers + k * 4)


class F64Type(Float):
    name, bytes = "F64", 8

    def load(self, e: Emitter, address: Value, lanes: int) -> Value:
        return e.shorten(e.load(address, vec(F64, lanes)))


class F32Type(Float):
    name, bytes = "F32", 4

    def load(self, e: Emitter, address: Value, lanes: int) -> Value:
        return e.load(address, vec(F32, lanes))


class F16Type(Float):
    name, bytes = "F16", 2

    def load(self, e: Emitter, address: Value, lanes: int) -> Value:
        return e.half_to_float(e.load(address, vec(I16, lanes)))


class BF16Type(Float):
    """The upper half of a float32."""

    name, bytes = "BF16", 2

    def load(self, e: Emitter, address: Value, lanes: int) -> Value:
        return e.bits(e.widen(e.load(address, vec(I16, lanes)), vec(I32, lanes)) << 16, vec(F32, lanes))


TYPES = (F64Type(), F32Type(), F16Type(), BF16Type())
