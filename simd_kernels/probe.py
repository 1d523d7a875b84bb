"""Kernels that measure how fast the machine reads memory and does 8-bit dot products: the limits of the real ones."""

from edgeinfer.simd_kernels.emit import I8, I32, I64, Emitter, Value, vec
from edgeinfer.simd_kernels.layout import DOTS
from edgeinfer.simd_kernels.quants.streams import AHEAD, STREAMS


def read(e: Emitter, address: Value, size: Value, out: Value) -> None:
    """Read `size` bytes (a multiple of READ_GRAIN) in STREAMS parts side by side, as the real kernels do; their sum as
    i64[8] goes to `out`."""
    sums = [e.var(vec(I64, 8)) for _ in range(4)]
    part = size / STREAMS
    with e.loop(address, address + part, 256) as at, e.loop(0, STREAMS) as stream:
        for j, total in enumerate(sums):
            line = at + stream * part + 64 * j
            e.prefetch(line + AHEAD)
            total.set(total.get() + e.load(line, vec(I64, 8)))
    e.store((sums[0].get() + sums[1].get()) + (sums[2].get() + sums[3].get()), out)


def dots(e: Emitter, turns: Value, out: Value) -> None:
    """DOTS x DOT_BYTES multiplications for each turn, in registers; a sum i32[16] goes to `out`."""
    sums = [e.var(vec(I32, 16)) for _ in range(DOTS)]
    codes, x = (
        e.load(out, vec(I8, 64)),
        e.load(out + 64, vec(I8, 64)),
    )  # read, so that nothing is known when it is compiled
    with e.loop(0, turns):
        for total in sums:
            total.set(e.dot(total.get(), codes, x, False))
    all_of_it = sums[0].get()
    for total in sums[1:]:
        all_of_it = all_of_it + total.get()
    e.store(all_of_it, out)
