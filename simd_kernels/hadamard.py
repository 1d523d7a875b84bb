"""Rotation by Hadamard matrices: it spreads what is large in a few dims over all, so that 8 bits suffice
(https://arxiv.org/abs/2404.00456).  The matrix is orthonormal and its own inverse; scores stay what they are where
queries and keys are rotated alike."""

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.record import ROTATE
from edgeinfer.simd_kernels.rows import WIDE, my_rows
from edgeinfer.simd_kernels.values import Value


def rotate(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
    """Each `block` numbers of a row, a power of two from 16 on, times the matrix of that size: butterflies, first
    within a vector, then between vectors."""
    r = ROTATE.read(e, op)
    with my_rows(e, op, thread, threads) as row, e.loop(0, r.width, r.block) as start:
        x, out = r.x + row * r.x_stride + start * 4, r.out + row * r.out_stride + start * 4
        factor = e.splat(r.factor_f32, 16)
        with e.loop(0, r.block, 16) as k:
            e.store(within(e, e.load(x + k * 4, WIDE) * factor), out + k * 4)
        half = e.var(r.block.kind, 16)
        with e.forever() as leave:
            apart = half.get()
            leave(apart >= r.block)
            with e.loop(0, r.block, apart * 2) as first, e.loop(first, first + apart, 16) as k:
                places = out + k * 4, out + (k + apart) * 4
                a, b = (e.load(place, WIDE) for place in places)
                e.store(a + b, places[0])
                e.store(a - b, places[1])
            half.set(apart * 2)


def within(e: Emitter, x: Value) -> Value:
    """The matrix of 16, without its factor, times a vector."""
    for apart in (1, 2, 4, 8):
        signs = [-1.0 if lane & apart else 1.0 for lane in range(16)]
        x = e.fma(x, e.const(WIDE, signs), e.pick(x, [lane ^ apart for lane in range(16)]))
    return x
