"""F64, F32, F16 and BF16 weights: converted to float32 and multiplied as such, with float32 activations."""

from edgeinfer.simd_kernels.emit import F32, F64, I16, I32, I64, Emitter, Value, vec


class Float:
    """A float tensor type: how `lanes` numbers at an address become float32."""

    name: str
    bytes: int  # of one number
    block = 1

    def load(self, e: Emitter, address: Value, lanes: int) -> Value:
        raise NotImplementedError

    def dot(self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value) -> None:
        """out f32[rows] = rows of weights at `w` times x f32[cols]."""
        whole = cols & -32
        with e.loop(0, rows) as row:
            start = w + row * row_bytes
            chains = [e.var(vec(F32, 16)) for _ in range(2)]
            with e.loop(0, whole, 32) as k:
                for j, chain in enumerate(chains):
                    numbers = self.load(e, start + (k + 16 * j) * self.bytes, 16)
                    chain.set(e.fma(numbers, e.load(x + (k + 16 * j) * 4, vec(F32, 16)), chain.get()))
            rest = e.var(vec(F32, 1))
            with e.loop(whole, cols) as k:
                rest.set(e.fma(self.load(e, start + k * self.bytes, 1), e.load(x + k * 4, vec(F32, 1)), rest.get()))
            e.store(e.total(chains[0].get() + chains[1].get()) + e.total(rest.get()), out + row * 4)

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
