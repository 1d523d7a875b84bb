"""Words of blocks, which lie some bytes apart, put side by side in a vector."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from llvmlite import ir

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.values import I8, I16, I32, Value, vec


def words(e: Emitter, w: Value, size: int, places: Sequence[int], kind: ir.IntType) -> Value:
    """kind[places] of the words at these places (in bytes) of the `size` bytes at `w`.

    Loaded one by one each would take a shuffle; picked from whole vectors only each vector takes one."""
    step, last = kind.width // 8, size - 64
    loads = blends(size, tuple(places), step) if e.tier.lanes == 8 and len(places) == 8 else ()
    if 0 < len(loads) < len(places):
        whole, at = blended(e, w, loads)
        return e.pick(e.bits(whole, vec(kind, 32 // step)), [at[place] // step for place in places])
    if e.tier.lanes < 16 or last < step:
        return e.join(*(e.load(w + place, vec(kind, 1)) for place in places))
    count = 64 // step
    found: Value | None = None
    lanes: dict[int, int] = {}  # of what is found, by place
    left = sorted(places)
    while left:
        start = min(left[0], last - (last - left[0]) % step)
        inside = {
            place: (place - start) // step
            for place in left
            if place + step <= start + 64 and not (place - start) % step
        }
        left = [place for place in left if place not in inside]
        loaded = e.load(w + start, vec(kind, count))
        if found is None:
            found, lanes = loaded, inside
        else:
            lanes |= {place: count + lane for place, lane in inside.items()}
            picked = [lanes.get(place, 0) for place in places] + [0] * (count - len(places))
            found, lanes = e.pick(found, picked, loaded), {p: i for i, p in enumerate(places) if p in lanes}
    assert found
    return e.pick(found, [lanes[place] for place in places])


@lru_cache
def blends(size: int, places: tuple[int, ...], step: int) -> tuple[tuple[int, dict[int, int]], ...]:
    """Loads of 32 bytes of the `size` that there are, such that the words of `step` bytes at these 8 places are in
    lanes (of 32 bits) of their own, as few as are found: where each begins, and its places by lane.  None where there
    is no way.  Of words of 16 bits those in the low four lanes are low halves, the others high ones: a blend joins
    them."""
    left, loads, taken = list(places), [], set[int]()

    def inside(at: int) -> dict[int, int]:
        found: dict[int, int] = {}
        for place in left:
            byte = place - at
            fits = byte % step == 0 and (step != 2 or byte % 4 // 2 == byte // 16)
            if 0 <= byte <= 32 - step and fits and byte // 4 not in taken | set(found):
                found[byte // 4] = place
        return found

    while left:
        starts = range(max(0, left[0] - 31), min(left[0], size - 32) + 1)
        tried = [(at, found) for at in starts if left[0] in (found := inside(at)).values()]
        if not tried:
            return ()
        at, found = max(tried, key=lambda one: (len(one[1]), one[0]))
        loads.append((at, found))
        taken |= set(found)
        left = [place for place in left if place not in found.values()]
    return tuple(loads)


def blended(e: Emitter, w: Value, loads: Sequence[tuple[int, dict[int, int]]]) -> tuple[Value, dict[int, int]]:
    """What `blends` finds, i32[8], and at which byte of it the words of each place are.  A blend is one instruction
    with its load, and on any port."""
    found, at = e.const(vec(I32, 8)), dict[int, int]()
    for start, lanes in loads:
        found = e.pick(found, [8 + lane if lane in lanes else lane for lane in range(8)], e.load(w + start, found.kind))
        at |= {place: 4 * lane + (place - start) % 4 for lane, place in lanes.items()}
    return found, at


def sixteens(e: Emitter, w: Value, size: int, places: Sequence[int]) -> Value:
    """16 bytes at each of these places of the `size` bytes at `w`, behind each other."""
    if e.tier.lanes < 16 or len(places) < 4 or size < 64 or any(place % 2 for place in places):
        return e.join(*(e.load(w + place, vec(I8, 16)) for place in places))
    each = [place + word for place in places for word in range(0, 16, 4)]
    return e.bits(words(e, w, size, each, I32), vec(I8, 64))


def halves(e: Emitter, w: Value, stride: int, n: int) -> Value:
    """f32[n] of the half floats at w, w + stride, ..."""
    return e.half_to_float(words(e, w, n * stride, range(0, n * stride, stride), I16))


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
