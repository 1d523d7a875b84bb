"""Rotary position embedding."""

from collections.abc import Callable

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.record import ROPE, STEP
from edgeinfer.simd_kernels.rows import my_rows
from edgeinfer.simd_kernels.values import F32, I64, Value, vec


def rope(adjacent: bool) -> Callable[..., None]:
    """Rotary embedding (https://arxiv.org/abs/2104.09864) of `heads` heads by the row's position.

    table f32[positions][2][pairs]: cosines, then sines.  Pair i is (2i, 2i + 1) if `adjacent`, else (i, i + pairs),
    counted from dim `start`; the dims before and behind the pairs pass."""

    def body(e: Emitter, op: Value, step: Value, thread: Value, threads: Value) -> None:
        r, s = ROPE.read(e, op), STEP.read(e, step)
        with my_rows(e, op, thread, threads) as row:
            cosines = r.table + e.field(s.positions + row * 8, 0) * r.pairs * 8
            sines = cosines + r.pairs * 4
            with e.loop(0, r.heads) as head:
                x, out = (b + row * n + head * r.head_dim * 4 for b, n in ((r.x, r.x_stride), (r.out, r.out_stride)))
                with e.loop(0, r.start) as i:
                    e.store(e.load(x + i * 4, F32), out + i * 4)
                x, out = x + r.start * 4, out + r.start * 4
                whole = r.pairs & -8
                for start, stop, n in ((e.const(I64, 0), whole, 8), (whole, r.pairs, 1)):
                    with e.loop(start, stop, n) as i:
                        cos, sin = e.load(cosines + i * 4, vec(F32, n)), e.load(sines + i * 4, vec(F32, n))
                        turn_pairs(e, adjacent, x, out, i, r.pairs, cos, sin)
                with e.loop(r.pairs * 2, r.head_dim - r.start) as i:
                    e.store(e.load(x + i * 4, F32), out + i * 4)

    return body


def turn_pairs(
    e: Emitter, adjacent: bool, x: Value, out: Value, i: Value, pairs: Value, cos: Value, sin: Value
) -> None:
    """Rotate pairs i, i + 1, ... of one head, as many as `cos` has lanes."""
    n = cos.lanes
    if adjacent:
        both = e.load(x + i * 8, vec(F32, 2 * n))
        a, b = e.pick(both, range(0, 2 * n, 2)), e.pick(both, range(1, 2 * n, 2))
    else:
        a, b = e.load(x + i * 4, vec(F32, n)), e.load(x + (i + pairs) * 4, vec(F32, n))
    new_a, new_b = a * cos - b * sin, a * sin + b * cos
    if adjacent:
        e.store(e.pick(new_a, [j // 2 + n * (j % 2) for j in range(2 * n)], new_b), out + i * 8)
    else:
        e.store(new_a, out + i * 4)
        e.store(new_b, out + (i + pairs) * 4)
