"""Runs with a number: the work is done whoever is missing, and who comes late changes nothing."""

import ctypes
import sys

import numpy as np
import pytest

from edgeinfer.simd_kernels import layout, record
from edgeinfer.simd_kernels.parts import by_parts
from edgeinfer.simd_kernels.rows import claimed
from edgeinfer.simd_kernels.values import F32, I64
from edgeinfer.simd_kernels.workers import Workers
from tests.simd_kernels.harness import write

# out f32[rows] = sum of x + row * unit, by chunks; `nap`: address of a function that now and then sleeps in one.
SUMS = record.operation("x", "out", "rows", "chunk", "counter", "naps", "nap")
ADD = record.operation("x", "out", "rows")  # out = x + 1
TOGETHER = record.operation("x", "out", "rows", "chunk", "counter")  # out = 2 x
UNIT = 2.0**-6


def sums(e, op, step, thread, threads):
    r = SUMS.read(e, op)

    def make(first, count, out):
        with e.when(r.naps > 0):
            e.jump(r.nap, r.naps, thread)
        with e.loop(0, count) as i:
            total = e.var(F32, 0.0)
            with e.loop(0, r.rows) as k:
                total.set(total.get() + e.load(r.x + k * 4, F32))
            e.store(e.to_float(first + i) * UNIT + total.get() * 0.5, out + i * 4)

    by_parts(e, op, step, thread, r, r.out, make)


def add(e, op, step, thread, threads):
    r = ADD.read(e, op)
    share = (e.const(I64, 1) + threads - 1) / threads
    with e.loop(thread * share, e.least((thread + 1) * share, 1)), e.loop(0, r.rows) as k:
        e.store(e.load(r.x + k * 4, F32) + 1.0, r.out + k * 4)


def together(e, op, step, thread, threads):
    r = TOGETHER.read(e, op)
    with claimed(e, r.counter, r.chunk, r.rows) as (first, count), e.loop(first, first + count) as k:
        e.store(e.load(r.x + k * 4, F32) * 2.0, r.out + k * 4)


ROWS, CHUNK, LAYERS = 40, 8, 5


class Net:
    """LAYERS times sums, an operation of one row and one that is claimed; `x` is what goes in."""

    def __init__(self, kernels, threads, nap=0):
        self.x, self.count = np.zeros(ROWS, np.float32), np.ones(1, np.int64)
        self.values = [layout.aligned(4 * ROWS).view(np.float32) for _ in range(3 * LAYERS)]
        self.counters, self.boards = (layout.aligned(3 * LAYERS * 64) for _ in range(2))
        self.naps, functions = np.zeros(1, np.int64), [kernels.build(4, body) for body in (sums, add, together)]
        self.ops = np.zeros((3 * LAYERS, record.OP_FIELDS), np.int64)
        for i, (row, out) in enumerate(zip(self.ops, self.values, strict=True)):
            form = (SUMS, ADD, TOGETHER)[i % 3]
            fields = {"x": self.values[i - 1] if i else self.x, "out": out, "rows": ROWS, "chunk": CHUNK}
            fields |= {"counter": self.counters[64 * i :], "naps": self.naps if nap else 0, "nap": nap}
            own = {name: value for name, value in fields.items() if name in form.names}
            parts = (ROWS // CHUNK, 0, -1)[i % 3]
            head = {"kernel": functions[i % 3], "wait": 1, "count": self.count, "board": self.boards[64 * i :]}
            numbers = write(form, parts=parts, **head, **own)
            row[: len(numbers)] = numbers
        self.results, self.step = layout.aligned(256 * threads), np.zeros(record.OP_FIELDS, np.int64)

    def start(self, sync):
        """Before a run; where the workers meet."""
        self.counters[:] = 0
        for name, value in {"sync": sync, "results": self.results.ctypes.data, "results_bytes": 256}.items():
            self.step[record.STEP.names.index(name)] = value

    def expected(self):
        x = self.x
        for _ in range(LAYERS):
            total = np.float32(0)
            for number in x:
                total += number
            x = (np.arange(ROWS, dtype=np.float32) * np.float32(UNIT) + total * np.float32(0.5) + 1) * 2
        return x


class ByHand:
    """Workers whose turns a test takes for them."""

    def __init__(self, kernels, net):
        self.kernels, self.net, self.sync = kernels, net, layout.aligned(layout.sync_bytes(2))

    def run(self, thread, number):
        ops, step = self.net.ops, self.net.step
        self.kernels.call("run", ops, len(ops), step, thread, 2, self.sync, number)

    def start(self, number):
        self.net.start(self.sync.ctypes.data)
        self.sync[layout.SYNC_RUN : layout.SYNC_RUN + 8].view(np.int64)[0] = number


@pytest.fixture
def net(kernels):
    made = Net(kernels, 2)
    made.x[:] = np.arange(ROWS) / 64
    return made


@pytest.mark.parametrize("thread", [0, 1])
def test_a_worker_alone_does_all(kernels, net, thread):
    hand = ByHand(kernels, net)
    for number in (2, 4, 6):
        net.x += 1
        hand.start(number)
        hand.run(thread, number)
        assert (net.values[-1] == net.expected()).all()


def test_parts_that_do_not_come_are_made_again(kernels, net):
    """Another worker has claimed parts, one of them twice over, and is never heard of again."""
    hand = ByHand(kernels, net)
    for number in (2, 4):
        net.x += 1
        hand.start(number)
        for i in range(0, 3 * LAYERS, 3):
            net.counters[64 * i] = 1 + i % 4
        hand.run(0, number)
        assert (net.values[-1] == net.expected()).all()


def test_who_comes_after_a_run_or_after_the_next_one_changes_nothing(kernels, net):
    hand = ByHand(kernels, net)
    hand.start(2)
    hand.run(0, 2)
    want = [value.copy() for value in net.values]
    net.x += 1
    hand.run(1, 2)
    assert all((a == b).all() for a, b in zip(net.values, want, strict=True))
    hand.start(4)
    hand.run(1, 2)
    assert all((a == b).all() for a, b in zip(net.values, want, strict=True)) and not net.counters.any()
    hand.run(0, 4)
    assert (net.values[-1] == net.expected()).all()


@pytest.mark.parametrize("by", [0, 2])
def test_a_part_that_others_have_made_meanwhile_is_dropped(kernels, by):
    """While the worker is at it, the part's word gets what another leaves there, in this run or the next one."""

    def overtaken(e, naps, thread):
        board = e.field(naps, 0)
        with e.loop(0, ROWS // CHUNK) as i:
            e.store_shared(e.const(I64, 3 + by), board + 8 * i)

    net = Net(kernels, 2, kernels.build(2, overtaken))
    net.naps[0], hand = net.boards.ctypes.data, ByHand(kernels, net)
    net.values[0][:] = 7
    net.x[:] = 1
    hand.start(2)
    kernels.call("run", net.ops, 1, net.step, 0, 2, hand.sync, 2)
    assert (net.values[0] == 7).all()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no usleep")
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_workers_that_fall_asleep(kernels, threads):
    """Each run has numbers of its own, so what is left of another one is seen."""
    usleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value

    def nap(e, naps, thread):
        turn = e.claim(naps)
        with e.when((turn * 2654435761 >> 16 & 31).equals(0)):
            e.jump(e.const(I64, usleep), (turn & 7) * 300)

    net = Net(kernels, threads, kernels.build(2, nap))
    workers = Workers(threads, kernels.address("run"))
    for number in range(300):
        net.x[:] = np.random.default_rng(number).integers(0, 64, ROWS) / 64
        net.start(workers.address)
        workers.run(net.ops.ctypes.data, len(net.ops), net.step.ctypes.data, late=net)
        assert (net.values[-1] == net.expected()).all()
        if number % 50 == 49:  # runs of both kinds follow each other
            net.start(workers.address)
            workers.run(net.ops.ctypes.data, len(net.ops), net.step.ctypes.data)
            assert (net.values[-1] == net.expected()).all()
    workers.close()
