"""The words kernels are written in, on every tier: each in a kernel of its own against numpy."""

import ctypes

import numpy as np
import pytest

from edgeinfer.simd_kernels import cpu
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.values import F32, F64, I8, I16, I32, I64, vec
from tests.simd_kernels.harness import call, computed, guarded

RNG = np.random.default_rng(0)
WIDE = vec(F32, 16)


def mapped(kernels, formula, x, dtype, lanes=16, more=()):
    """formula(e, vector) over `x` by `lanes`; what `x` lacks to a whole number of vectors is zero."""
    kinds = {"f4": F32, "i4": I32, "i2": I16, "i1": I8, "u1": I8, "u2": I16}
    padded = np.zeros(-(-x.size // lanes) * lanes, x.dtype)
    padded[: x.size] = x
    out = np.zeros(padded.size, dtype)

    def body(e, source, target, count):
        with e.loop(0, count, lanes) as k:
            value = e.load(source + k * x.itemsize, vec(kinds[x.dtype.str[1:]], lanes))
            e.store(formula(e, value), target + k * out.itemsize)

    call(kernels.build(3, body), padded, out, padded.size)
    return out[: x.size]


def ulps(got, want):
    """Distance in units in the last place of the float32 `want` (float64 values)."""
    unit = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    return np.abs(got.astype(np.float64) - want) / unit


def test_exp_is_within_2_ulps_over_its_whole_range(kernels):
    x = np.concatenate(
        [np.linspace(-86.999, 88, 200_001), RNG.uniform(-1, 1, 50_000), [0.0, -0.0, 1e-30, -86.99999, 88]]
    )
    x = x.astype(np.float32)
    x = x[x > -87]
    got = mapped(kernels, lambda e, v: e.exp(v), x, np.float32)
    assert ulps(got, np.exp(x.astype(np.float64))).max() <= 2
    assert got[x == 0].tolist() == [1.0] * 2


def test_exp_outside_of_its_range(kernels):
    x = np.array([-87, -87.5, -1000, -3e38, -np.inf, 88.0, 88.5, 1e9, np.inf, np.nan], np.float32)
    got = mapped(kernels, lambda e, v: e.exp(v), x, np.float32)
    assert got[:5].tolist() == [0] * 5
    assert (got[5:9] == got[5]).all() and np.isfinite(got[5]) and np.isnan(got[9])


ALL_HALVES = np.arange(65536).astype(np.uint16)


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_all_halves_become_floats(kernels, lanes):
    got = mapped(kernels, lambda e, v: e.half_to_float(v), ALL_HALVES, np.float32, lanes)
    want = ALL_HALVES.view(np.float16).astype(np.float32)
    number = ~np.isnan(want)
    assert (got.view(np.uint32)[number] == want.view(np.uint32)[number]).all()
    assert np.isnan(got[~number]).all()


def test_all_halves_come_back(kernels):
    floats = ALL_HALVES.view(np.float16).astype(np.float32)
    got = mapped(kernels, lambda e, v: e.float_to_half(v), floats, np.uint16)
    number = ~np.isnan(floats)
    assert (got[number] == ALL_HALVES[number]).all()
    assert np.isnan(got[~number].view(np.float16)).all()


def test_floats_round_to_the_nearest_half_ties_to_even(kernels):
    halves = (
        np.arange(0x7C00).astype(np.uint16).view(np.float16).astype(np.float64)
    )  # all that are finite and not negative
    ties = (halves[1:] + halves[:-1]) / 2
    beside = [np.nextafter(ties.astype(np.float32), np.float32(side)) for side in (-1, 1e9)]
    rest = RNG.integers(0, 2**31, 100_000).astype(np.uint32).view(np.float32)  # any exponent, NaN too
    edges = np.array(
        [65504, 65519.996, 65520, 65536, 3e38, np.inf, np.nan, 2**-25, 2**-24, 2**-26, 1e-40, 0], np.float32
    )
    x = np.concatenate([ties.astype(np.float32), *beside, rest, edges])
    x = np.concatenate([x, -x])
    got = mapped(kernels, lambda e, v: e.float_to_half(v), x, np.uint16)
    with np.errstate(over="ignore"):
        want = x.astype(np.float16)
    number = ~np.isnan(want)
    assert (got[number] == want.view(np.uint16)[number]).all()
    assert np.isnan(got[~number].view(np.float16)).all()


def test_round_and_nearest_take_ties_to_even(kernels):
    x = np.concatenate([np.arange(-130, 130, 0.25), [2.0**21 + 0.5, -(2.0**21) - 1.5]]).astype(np.float32)
    assert (mapped(kernels, lambda e, v: e.round(v), x, np.float32) == np.rint(x)).all()
    assert (mapped(kernels, lambda e, v: e.nearest(v), x, np.int32) == np.rint(x).astype(np.int32)).all()


@pytest.mark.parametrize("lanes, counts", [(32, (0, 4)), (64, (2,)), (64, (-4, -2)), (64, (1, -3)), (64, (0, 4, 0, 4))])
def test_shift_moves_each_part_of_the_bytes(kernels, lanes, counts):
    x = RNG.integers(0, 256, 4 * lanes).astype(np.uint8)
    got = mapped(kernels, lambda e, v: e.shift(v, *counts), x, np.uint8, lanes)
    moved = [x.astype(int) >> c if c >= 0 else (x.astype(int) << -c) & 255 for c in counts]
    keep = [0xFF >> c if c >= 0 else (0xFF << -c) & 255 for c in counts]  # other bits are those of neighbours
    part = np.arange(x.size) % lanes // (lanes // len(counts))
    assert ((got & np.array(keep)[part]) == np.choose(part, moved)).all()


@pytest.mark.parametrize("lanes", [1, 2, 8, 16])
def test_total_and_largest(kernels, lanes):
    x = RNG.permutation(lanes).astype(np.float32) - lanes // 2
    kind = vec(F32, lanes)
    got = computed(kernels, lambda e, at: e.total(e.load(at, kind)), x, size=4).view(np.float32)[0]
    assert got == x.sum()
    for shift in range(lanes):  # the largest in every place
        turned = np.roll(x, shift)
        assert (
            computed(kernels, lambda e, at: e.largest(e.load(at, kind)), turned, size=4).view(np.float32)[0] == x.max()
        )


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_across_and_interwoven_keep_rows_apart(kernels, rows, lanes):
    x = RNG.permutation(np.arange(-128, 128))[: rows * lanes].astype(np.int32).reshape(rows, lanes)

    def loaded(e, at):
        return [e.load(at + 4 * lanes * row, vec(I32, lanes)) for row in range(rows)]

    largest = computed(kernels, lambda e, at: e.across(loaded(e, at), e.maximum), x, size=4 * rows)
    assert (largest.view(np.int32) == x.max(axis=1)).all()
    mixed = computed(kernels, lambda e, at: e.interwoven(loaded(e, at)), x, size=rows * lanes)
    assert (mixed.view(np.int8) == x.reshape(rows, -1, 4).swapaxes(0, 1).reshape(-1)).all()


@pytest.mark.parametrize("count", range(17))
def test_partial_vectors_touch_nothing_else(kernels, count):
    """Source and target end where no page follows."""
    source = guarded(np.arange(1, count + 1, dtype=np.float32))
    target = guarded(np.zeros(count, np.float32))
    whole = np.full(16, 7, np.float32)

    def body(e, x, out, all_lanes, n):
        mask = e.first(n, 16)
        value = e.load_some(x, mask, WIDE)
        e.store_some(value, out, mask)
        e.store(value, all_lanes)

    call(kernels.build(4, body), source, target, whole, count)
    assert target.tolist() == source.tolist()
    assert whole.tolist() == source.tolist() + [0] * (16 - count)


def test_partial_stores_leave_the_rest_of_memory(kernels):
    out = np.full(32, 7, np.float32)
    call(kernels.build(2, lambda e, at, n: e.store_some(e.const(WIDE, range(16)), at, e.first(n, 16))), out, 5)
    assert out.tolist() == [0, 1, 2, 3, 4] + [7] * 27


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("wide, most", [(False, 127), (True, 255)])
def test_dot_is_exact_at_the_extremes(kernels, lanes, wide, most):
    codes = RNG.integers(0, most + 1, (5, 4 * lanes)).astype(np.uint8)
    x = RNG.integers(-127, 128, codes.shape).astype(np.int8)
    codes[0], x[0] = most, -127
    codes[1], x[1] = most, 127
    codes[3], x[3] = 0, -127
    x[2] = np.where(np.arange(4 * lanes) % 2, 127, -127)
    kind = vec(I8, 4 * lanes)
    start = np.arange(lanes, dtype=np.int32)
    for c, v in zip(codes, x, strict=True):

        def dot(e, a, b, at):
            return e.dot(e.load(at, vec(I32, lanes)), e.load(a, kind), e.load(b, kind), wide)

        centre = 128 if wide and kernels.tier.name in ("avx2", "dotprod", "neon") else 0
        got = computed(kernels, dot, c, v, start, size=4 * lanes).view(np.int32)
        assert (got == start + ((c.astype(int) - centre) * v).reshape(-1, 4).sum(axis=1)).all()


@pytest.mark.parametrize("dtype, words", [(np.uint32, 1), (np.uint32, 2), (np.uint64, 1)])
def test_flags_are_the_bits_lowest_first(kernels, dtype, words):
    bits = RNG.integers(0, 2, 8 * words * dtype().itemsize).astype(np.uint8)
    data = np.packbits(bits, bitorder="little").view(dtype)
    kind = {4: vec(I32, words), 8: I64}[dtype().itemsize]

    def marked(e, at):
        return e.select(e.flags(e.load(at, kind)), e.const(vec(I8, bits.size), 1), 0)

    assert (computed(kernels, marked, data, size=bits.size) == bits).all()


def test_spread_puts_each_number_in_all_lanes(kernels):
    n, x = kernels.tier.lanes, guarded(np.arange(4, dtype=np.float32))
    got = computed(kernels, lambda e, at: e.join(*e.spread(at, 4, F32, n)), x, size=16 * n).view(np.float32)
    assert got.tolist() == np.repeat(x, n).tolist()


def test_fma_and_root(kernels):
    x = np.array([1 + 2.0**-12, 3.0, -2.0], np.float32)
    got = mapped(kernels, lambda e, v: e.fma(v, v, e.const(v.kind, -1.0)), x, np.float32, 4)
    if kernels.tier.name == "portable":
        assert got.tolist() == (x * x - np.float32(1)).tolist()
    else:
        assert got.tolist() == (x.astype(float) ** 2 - 1).astype(np.float32).tolist()
    assert computed(kernels, lambda e: e.root(e.const(F32, 2.0)), size=4).view(np.float32)[0] == np.sqrt(np.float32(2))


def test_integers_wrap_compare_with_sign_and_shift_in_zeros(kernels):
    x = np.array([2**31 - 1, -(2**31), -1, 5], np.int32)
    assert mapped(kernels, lambda e, v: v + 1, x, np.int32, 4).tolist() == [-(2**31), -(2**31) + 1, 0, 6]
    assert mapped(kernels, lambda e, v: v >> 28, x, np.int32, 4).tolist() == [7, 8, 15, 0]
    assert mapped(kernels, lambda e, v: e.select(v < 0, -v, 0), x, np.int32, 4).tolist() == [0, -(2**31), 1, 0]
    assert mapped(kernels, lambda e, v: (v ^ 5) | (v & 3), x, np.int32, 4).tolist() == [
        (int(v) ^ 5) | (int(v) & 3) for v in x
    ]


def test_bytes_widen_with_and_without_sign(kernels):
    x = np.array([0, 1, 127, 128, 255], np.uint8)
    assert mapped(kernels, lambda e, v: e.widen(v, vec(I32, 8)), x, np.int32, 8).tolist() == [0, 1, 127, 128, 255]
    assert mapped(kernels, lambda e, v: e.widen_signed(v, vec(I32, 8)), x, np.int32, 8).tolist() == [
        0,
        1,
        127,
        -128,
        -1,
    ]
    wide = np.array([-1, 300, 127], np.int32)
    assert mapped(kernels, lambda e, v: e.narrow(v, vec(I8, 4)), wide, np.int8, 4).tolist() == [-1, 44, 127]


def test_join_and_part_are_inverse(kernels):
    x = np.arange(16, dtype=np.float32)

    def turned(e, v):
        return e.join(*(e.part(v, start, 4) for start in (12, 8, 4, 0)))

    assert mapped(kernels, turned, x, np.float32).tolist() == x.reshape(4, 4)[::-1].reshape(-1).tolist()


@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_lookup_takes_bytes_of_a_table(kernels, lanes):
    table = [255, 0, 127, 128, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41]
    x = np.random.default_rng(0).permutation(np.arange(64, dtype=np.uint8) % 16)
    assert mapped(kernels, lambda e, v: e.lookup(table, v), x, np.uint8, lanes).tolist() == [table[i] for i in x]


@pytest.mark.parametrize("dtype, lanes", [(np.uint8, 8), (np.uint8, 32), (np.uint16, 4), (np.uint16, 32)])
@pytest.mark.parametrize("entry, kind", [(np.uint32, I32), (np.uint64, I64)])
def test_gather_takes_entries_of_a_table(kernels, dtype, lanes, entry, kind):
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2**32, 1024 if dtype == np.uint16 else 256).astype(entry) << (
        np.dtype(entry).itemsize * 8 - 32
    )
    x = rng.permutation(np.arange(len(table)).astype(dtype))
    got = mapped(kernels, lambda e, v: e.gather(e.table(table.tobytes()), v, kind), x, entry, lanes)
    assert (got == table[x]).all()


def test_doubles_become_the_nearest_floats(kernels):
    x = np.array([0.1, -0.0, 1e300, 1e-50, 1 + 2.0**-24, 1 + 2.0**-24 + 2.0**-50, np.inf, np.nan])
    with np.errstate(over="ignore"):
        want = x.astype(np.float32)
    got = computed(kernels, lambda e, at: e.shorten(e.load(at, vec(F64, 8))), x, size=32).view(np.float32)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("start, stop, step", [(0, 0, 1), (3, 2, 1), (0, 7, 3), (2, 8, 3)])
def test_loops_run_as_range_does(kernels, start, stop, step):
    def body(e, out, first, last, stride):
        place = e.var(I64, out)
        with e.loop(first, last, stride) as i:
            e.store(i, place.get())
            place.set(place.get() + 8)

    out = np.full(8, -1)
    call(kernels.build(4, body), out, start, stop, step)
    assert out[out >= 0].tolist() == [*range(start, stop, step)]


def test_claimed_numbers_count_up(kernels):
    counter, out = np.array([5]), np.zeros(2, np.int64)

    def body(e, at, target):
        e.store(e.claim(at), target)
        e.store(e.claim(at), target + 8)

    call(kernels.build(2, body), counter, out)
    assert (out.tolist(), counter[0]) == ([5, 6], 7)


def test_prefetch_may_leave_the_mapping(kernels):
    data = guarded(np.zeros(64, np.uint8))
    call(kernels.build(1, lambda e, at: e.prefetch(at + 4096)), data)


@pytest.mark.parametrize("tier, often", [("avx2", [4, 2, 1, 0]), ("avx512vnni", [1] * 4), ("neon", [1] * 4)])
def test_sums_of_products_that_fit_16_bits(tier, often):
    e = Emitter(None, cpu.tier(tier))
    assert [e.in_16_bits(largest) for largest in (16, 32, 64, 128)] == often
    assert tier != "avx2" or all(n * 2 * 255 * size < 2**15 for n, size in zip(often, (16, 32, 64, 128), strict=True))


def test_own_numbers_stay_from_call_to_call(kernels):
    def body(e, number, out):
        one, other = e.own(), e.own()
        for place, weight in ((one, 1), (other, 10)):
            e.store(e.load(place, I64) + number * weight, place)
        e.store(e.load(one, I64), out)
        e.store(e.load(other, I64), out + 8)

    kernel, out = kernels.build(2, body), np.zeros(2, np.int64)
    sums = []
    for number in (1, 2, -5):
        call(kernel, number, out)
        sums.append(out.tolist())
    assert sums == [[1, 10], [3, 30], [-2, -20]]


def test_functions_of_c_are_called(kernels):
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(lambda x, y: 1000 * x - y)
    address, out = ctypes.cast(function, ctypes.c_void_p).value, np.zeros(1, np.int64)
    call(kernels.build(2, lambda e, at, out: e.store(e.call(at, e.const(I64, 7), -9), out)), address, out)
    assert out.tolist() == [7009]
