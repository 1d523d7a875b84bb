"""Kernels that remember, against the reference's ops: sequences side by side, step by step, odd widths, copies."""

import dataclasses

import numpy as np
import pytest

from edgeinfer.lowering.recurrence import blocks
from edgeinfer.reference_ops.step import Held
from edgeinfer.simd_kernels import layout, record
from tests.reference_ops import one_op
from tests.simd_kernels.harness import guarded, padded_rows, write

STEPS = [(5, 1), (1, 4), (3, 2)]  # tokens of either sequence in each step
BEFORE = 64  # bytes of a slot that are another op's
SIZES = [(1, 16), (1, 5), (3, 16), (2, 40), (5, 7)]  # units, columns of each


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def rates(*shape, seed=0):
    """Between 0 and 1, so that states neither grow nor vanish."""
    return np.random.default_rng(seed).uniform(0.3, 0.95, shape).astype(np.float32)


@dataclasses.dataclass
class Case:
    """An op, and its kernel for it."""

    kind: str
    kernel: str
    form: record.Record
    units: int
    size: int
    depth: int
    ins: dict[str, np.ndarray]  # by field, f32[tokens of all steps, width], in the op's order
    weights: list[np.ndarray]
    attrs: dict[str, int]
    fields: dict[str, np.ndarray | int]

    @property
    def slot(self):
        return BEFORE + layout.state_bytes(self.units, self.size, self.depth)


TOKENS = sum(map(sum, STEPS))


def shift(units, size, depth):
    width = units * size
    return Case("shift", "shift", record.SHIFT, 1, width, 1, {"x": numbers(TOKENS, width)}, [], {}, {})


def conv(units, size, depth):
    width = units * size
    w, bias = numbers(width, depth + 1, seed=1), numbers(width, seed=2)
    fields = {"w": guarded(blocks(w[None])), "bias": guarded(blocks(bias[None, :, None]))}
    ins = {"x": numbers(TOKENS, width)}
    return Case("conv", "conv", record.CONV, 1, width, depth, ins, [w, bias], {"kernel": depth + 1}, fields)


def condense(units, size, depth):
    """Pools of one position more than `depth`; the state has a size of its own."""
    width = units * size
    places = 3 * numbers(depth + 1, width, seed=1)
    fields = {"places": guarded(blocks(places.T[None])), "span": depth + 1}
    ins = {"x": numbers(TOKENS, width), "gate": 9 * numbers(TOKENS, width, seed=2)}
    return Case("condense", "condense", record.CONDENSE, 1, width, 3, ins, [places], {"count": depth + 1}, fields)


def overlap(units, size, depth):
    """As `condense`, of twice the columns."""
    width = units * size
    places = 3 * numbers(depth + 1, 2 * width, seed=1)
    fields = {"places": guarded(blocks(places.T.reshape(2, width, -1))), "span": depth + 1}
    ins = {"x": numbers(TOKENS, 2 * width), "gate": 9 * numbers(TOKENS, 2 * width, seed=2)}
    return Case("overlap", "overlap", record.CONDENSE, 1, width, 9, ins, [places], {"count": depth + 1}, fields)


def ssm_narrow(units, size, depth):
    """Units are groups of heads of one column."""
    heads = units * size
    ins = {"x": numbers(TOKENS, heads), "dt": rates(TOKENS, heads)}
    ins |= {name: numbers(TOKENS, units * depth, seed=seed) for seed, name in enumerate("bc", 1)}
    a, d = -rates(heads, depth, seed=3), numbers(heads, 1, seed=4)
    fields = {name: guarded(blocks(x.reshape(units, size, -1))) for name, x in (("a", a), ("d", d))} | {"share": 1}
    attrs = {"heads": heads, "groups": units, "state": depth}
    return Case("ssm", "ssm.narrow", record.SSM, units, size, depth, ins, [a, d], attrs, fields)


def ssm_wide(units, size, depth, each=False):
    """Units are heads; the even ones share B and C with the one before, where that comes out."""
    share = 1 if units % 2 else 2
    ins = {"x": numbers(TOKENS, units * size), "dt": rates(TOKENS, units)}
    ins |= {name: numbers(TOKENS, units // share * depth, seed=seed) for seed, name in enumerate("bc", 1)}
    a, d = -rates(units, depth if each else 1, seed=3), numbers(units, 1, seed=4)
    attrs = {"heads": units, "groups": units // share, "state": depth}
    fields = {"a": guarded(a), "d": guarded(d), "share": share}
    kernel = "ssm.wide.each" if each else "ssm.wide"
    return Case("ssm", kernel, record.SSM, units, size, depth, ins, [a, d], attrs, fields)


def ssm_wide_each(units, size, depth):
    return ssm_wide(units, size, depth, each=True)


def wkv(units, size, depth):
    ins = {name: numbers(TOKENS, units * size, seed=seed) for seed, name in enumerate("rkv")}
    ins["w"], bonus = rates(TOKENS, units * size, seed=3), numbers(units, size, seed=4)
    attrs, fields = {"heads": units}, {"bonus": guarded(bonus)}
    return Case("wkv", "wkv", record.WKV, units, size, size, ins, [bonus], attrs, fields)


def delta(units, size, depth):
    widths = {"q": depth, "k": depth, "v": size, "w": depth, "a": depth, "b": depth}
    ins = {name: 0.3 * numbers(TOKENS, units * each, seed=seed) for seed, (name, each) in enumerate(widths.items())}
    ins["w"] = rates(TOKENS, units * depth)
    return Case("delta", "delta", record.DELTA, units, size, depth, ins, [], {"heads": units}, {})


CASES = {f.__name__: f for f in (shift, conv, condense, overlap, ssm_narrow, ssm_wide, ssm_wide_each, wkv, delta)}


@pytest.fixture(params=CASES)
def case_of(request):
    return CASES[request.param]


def cut(case):
    """The rows of each step: of the first sequence, then of the second."""
    start = 0
    for counts in STEPS:
        yield counts, {name: x[start : start + sum(counts)] for name, x in case.ins.items()}
        start += sum(counts)


def wanted(case):
    """The reference's outputs of each step."""
    held, width = [Held(), Held()], case.units * case.size
    for counts, rows in cut(case):
        chunks = [(count, 0) for count in counts]
        out = one_op.run(
            case.kind, *rows.values(), weights=case.weights, width=width, chunks=chunks, held=held, **case.attrs
        )
        for one, count in zip(held, counts, strict=True):
            one.length += count
        yield np.array(out)


class Run:
    """A case on its kernel; `slots` u8[sequence][states, copy][bytes]."""

    def __init__(self, kernels, case, threads=2, chunk=2):
        self.kernels, self.case, self.threads, self.chunk = kernels, case, threads, chunk
        self.slots = guarded(np.zeros((2, 2, case.slot), np.uint8))
        self.slots[:, :, :BEFORE] = 77
        self.lengths = [0, 0]

    def step(self, counts, rows, copy=True):
        case = self.case
        spans = guarded(np.array([[0, counts[0]], [counts[0], counts[-1]]])[: len(counts)])
        home = self.slots.ctypes.data + np.arange(len(counts)) * self.slots.strides[0]
        states = guarded(np.stack([home, (home + case.slot) * copy], axis=1))
        positions = [np.arange(count) + length for count, length in zip(counts, self.lengths, strict=False)]
        self.lengths = [length + count for length, count in zip(self.lengths, [*counts, 0], strict=False)]
        places = guarded(np.concatenate(positions))
        step = write(record.STEP, spans=spans, states=states, span_count=len(counts), positions=places)
        out = padded_rows(np.full((sum(counts), case.units * case.size), np.nan, np.float32), 3)
        given = {name: padded_rows(x) for name, x in rows.items()}
        given |= {name: getattr(case, name) for name in ("units", "size", "depth")}
        fields = {**given, **case.fields, "state": BEFORE, "chunk": self.chunk, "counter": np.zeros(1, np.int64)}
        self.kernels.operate(case.kernel, case.form, 0, self.threads, step, out=out, **fields)
        assert (self.slots[:, :, :BEFORE] == 77).all()
        return out


@pytest.mark.parametrize("units, size", SIZES)
@pytest.mark.parametrize("depth", [1, 20])
def test_steps_of_several_sequences(kernels, case_of, units, size, depth):
    case = case_of(units, size, depth)
    run = Run(kernels, case)
    for (counts, rows), want in zip(cut(case), wanted(case), strict=True):
        assert np.abs(run.step(counts, rows) - want).max() <= 2e-6 * max(1, np.abs(want).max())


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_every_block_is_done_once_however_many_are_claimed_at_a_time(kernels, case_of, chunk):
    case = case_of(5, 40, 4)
    one, other = Run(kernels, case), Run(kernels, case, chunk=chunk, threads=4)
    for counts, rows in cut(case):
        assert (one.step(counts, rows) == other.step(counts, rows)).all()


def test_the_copy_is_of_the_states_before_the_last_token(kernels, case_of):
    case = case_of(2, 20, 3)
    run, shorter = Run(kernels, case), Run(kernels, case)
    (counts, rows), *_ = cut(case)
    run.step(counts, rows)
    shorter.step([counts[0] - 1], {name: x[: counts[0] - 1] for name, x in rows.items()}, copy=False)
    copy, states = run.slots[0, 1], shorter.slots[0, 0]
    assert (copy == states).all() and (copy[BEFORE:] != 0).any()
    assert (shorter.slots[:, 1, BEFORE:] == 0).all()  # no copy was asked for


def test_steps_of_any_length_change_no_bit(kernels, case_of):
    case = case_of(3, 20, 6)
    whole, single = Run(kernels, case), Run(kernels, case)
    rows = {name: x[:6] for name, x in case.ins.items()}
    together = whole.step([6], rows)
    for i in range(6):
        assert (single.step([1], {name: x[i : i + 1] for name, x in rows.items()}, False) == together[i]).all()
    assert (single.slots[0, 0] == whole.slots[0, 0]).all()


def test_lanes_past_the_columns_stay_zero(kernels, case_of):
    case = case_of(1, 5, 2)
    run = Run(kernels, case)
    for counts, rows in cut(case):
        run.step(counts, rows)
    states = run.slots[:, 0, BEFORE:].copy().view(np.float32).reshape(-1, layout.LANES)
    assert (states[:, 5:] == 0).all() and (states[:, :5] != 0).any()


def test_blocks_put_columns_in_lanes():
    x = np.arange(2 * 18 * 3, dtype=np.float32).reshape(2, 18, 3)
    out = blocks(x)
    assert out.shape == (2, 2, 3, 16)
    turned = x.transpose(0, 2, 1)
    assert (out[:, 0] == turned[..., :16]).all() and (out[:, 1, :, :2] == turned[..., 16:]).all()
    assert (out[:, 1, :, 2:] == 0).all()
