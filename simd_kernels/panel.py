"""A panel of weights: where its parts are, and how words become its columns.

It holds `tile_rows` rows of weights with rows as lanes: codes i8[cols / 4][rows][4]; scales, minimums f32, starts i32
and steps i16 twice [groups][rows].  quants/panels.py makes it, tiles of tokens pass it (tile.py).
"""

from types import SimpleNamespace

from edgeinfer.simd_kernels.cpu import Tier
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.layout import DEPTH
from edgeinfer.simd_kernels.values import F32, I8, I16, I32, Value, vec


def transpose(e: Emitter, source: Value, stride: Value, words: Value, out: Value) -> None:
    """Columns of a panel: out 32-bit [words][tile_rows] gets the words of `lanes` rows, which lie `stride` bytes
    apart."""
    n, step = e.tier.lanes, 4 * e.tier.tile_rows
    whole = words & -n
    with e.loop(0, whole, n) as word:
        square = [e.load(source + word * 4 + stride * r, vec(I32, n)) for r in range(n)]
        for c, column in enumerate(turn(e, square)):
            e.store(column, out + word * step + step * c)
    with e.loop(whole, words) as word:
        for row in range(n):
            e.store(e.load(source + word * 4 + stride * row, I32), out + word * step + 4 * row)


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


def panel_size(tier: Tier) -> int:
    """Bytes from a panel to the next one."""
    return tier.tile_rows * (DEPTH + DEPTH // 4 * 4)  # 4 bytes for 16 weights


def panel_parts(e: Emitter, panel: Value) -> SimpleNamespace:
    """Where the parts of a panel at this address are."""
    scales, minimums, starts, steps = (panel + e.tier.tile_rows * (DEPTH + DEPTH // 4 * i) for i in range(4))
    return SimpleNamespace(codes=panel, scales=scales, minimums=minimums, starts=starts, steps=steps)


def as_high_codes(e: Emitter, panel: Value, groups: Value) -> None:
    """Make the panel one for the high codes of fine activations: worth 256 low ones, the minimums done."""
    parts, kind = panel_parts(e, panel), vec(F32, e.tier.lanes)
    with e.loop(0, groups * (4 * e.tier.tile_rows), 4 * e.tier.lanes) as at:
        e.store(e.load(parts.scales + at, kind) * 256.0, parts.scales + at)
        e.store(e.const(kind), parts.minimums + at)


def weights_in_pairs(e: Emitter, codes: Value, cols: Value, out: Value) -> None:
    """out i16[cols / 2][rows][2] = codes i8[cols / 4][rows][4]."""
    n, rows = e.tier.lanes, e.tier.tile_rows
    with e.loop(0, cols * rows, 4 * rows) as k:
        for first in range(0, 4 * rows, 4 * n):
            bytes4n = e.load(codes + k + first, vec(I8, 4 * n))
            for half in range(2):
                pairs = e.pick(bytes4n, [4 * r + 2 * half + i for r in range(n) for i in range(2)])
                e.store(e.widen_signed(pairs, vec(I16, 2 * n)), out + k * 2 + 4 * rows * half + first)
