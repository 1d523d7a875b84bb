"""Kernels that measure how fast the machine reads memory and does 8-bit dot products: the limits of the real ones."""

from edgeinfer.simd_kernels import layout
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants.streams import AHEAD
from edgeinfer.simd_kernels.record import PROBE_DOTS, PROBE_READ
from edgeinfer.simd_kernels.tile import MANY_TOGETHER
from edgeinfer.simd_kernels.values import I8, I16, I32, I64, Value, vec

PARTS = 16  # of 1 to 64 tried, 12 to 24 are read fastest, 8 a tenth slower


def read(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Read `size` bytes (a multiple of READ_GRAIN) in PARTS parts side by side; their sum as i64[8] goes to `out`."""
    r = PROBE_READ.read(e, op)
    sums = [e.var(vec(I64, 8)) for _ in range(4)]
    address, part, out = r.address + thread * r.size, r.size / PARTS, r.out + thread * 128
    with e.loop(address, address + part, 256) as at, e.loop(0, PARTS) as stream:
        for j, total in enumerate(sums):
            line = at + stream * part + 64 * j
            e.prefetch(line + AHEAD)
            total.set(total.get() + e.load(line, vec(I64, 8)))
    e.store((sums[0].get() + sums[1].get()) + (sums[2].get() + sums[3].get()), out)


def dots(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Products of bytes as register tiles have them, `dots(lanes)` registers full of them for each turn; a sum
    i32[lanes] goes to `out`."""
    r, n = PROBE_DOTS.read(e, op), e.tier.lanes
    out = r.out + thread * 128
    sums = [e.var(vec(I32, n)) for _ in range(layout.dots(n))]
    # read, so that nothing is known when it is compiled
    x, codes = e.load(out, vec(I8, 4 * n)), e.load(out + 64, vec(I8, 4 * n))
    together = min(MANY_TOGETHER, e.in_16_bits(16))
    with e.loop(0, r.turns, together):
        for total in sums:
            if together == 1:
                total.set(e.multiply(total.get(), [x], [codes]))
            else:  # what takes several instructions must not be done once for all
                pairs = e.const(vec(I16, 2 * n))
                for _ in range(together):
                    pairs = e.multiply_pairs(pairs, e.pinned(x), codes)
                total.set(e.add_pairs(total.get(), pairs))
    all_of_it = sums[0].get()
    for total in sums[1:]:
        all_of_it = all_of_it + total.get()
    e.store(all_of_it, out)
