"""The kernel that runs a plan: order, barriers between real threads, chains of row operations."""

import threading
import time

import numpy as np
import pytest

from edgeinfer.simd_kernels import layout, record
from edgeinfer.simd_kernels.executor import CHAINED_ROWS
from edgeinfer.simd_kernels.values import I64
from edgeinfer.simd_kernels.workers import Workers
from tests.simd_kernels.harness import write

PASS = record.operation("cells")  # i64[threads]


def pass_on(e, op, step, thread, threads):
    """cells[1][thread] = cells[0][next thread] + 1"""
    cells = e.field(op, PASS.names.index("cells"))
    after = e.select((thread + 1).equals(threads), thread - thread, thread + 1)
    e.store(e.field(cells + after * 8, 0) + 1, cells + (threads + thread) * 8)


def operations(*ops):
    """i64[ops, OP_FIELDS] of records."""
    out = np.zeros((len(ops), record.OP_FIELDS), np.int64)
    for row, op in zip(out, ops, strict=True):
        row[: len(op)] = op
    return out


@pytest.fixture
def workers(kernels):
    """A function that starts workers, which are closed at the end."""
    started = []

    def start(threads):
        started.append(Workers(threads, kernels.address("run")))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_everyone_waits_for_the_others(kernels, workers, threads):
    """Every operation reads what a neighbour wrote in the one before: a worker ahead or behind would read a zero."""
    function, rounds = kernels.build(4, pass_on), 3000
    cells = np.zeros((rounds + 1, threads), np.int64)
    ops = operations(*(write(PASS, kernel=function, wait=1, cells=row) for row in cells[:-1]))
    team = workers(threads)
    for _ in range(3):
        cells[:] = 0
        team.run(ops.ctypes.data, rounds, 0)
        assert (cells == np.arange(rounds + 1)[:, None]).all()


def test_run_does_so_many_operations(kernels, workers):
    function = kernels.build(4, pass_on)
    cells = np.zeros((4, 1), np.int64)
    ops = operations(*(write(PASS, kernel=function, wait=1, cells=row) for row in cells[:-1]))
    team = workers(1)
    team.run(ops.ctypes.data, 0, 0)
    assert cells.sum() == 0
    team.run(ops.ctypes.data, 2, 0)
    assert cells[:, 0].tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 40, 100])
def test_chains_do_every_row_once(kernels, workers, threads, rows):
    """x += y, twice, then z = x + y: as one chain and as single operations."""
    assert rows < 7 * CHAINED_ROWS
    rng = np.random.default_rng(rows)
    start, y = rng.integers(0, 100, (2, rows, 5)).astype(np.float32)
    for chained in (True, False):
        x, z, count = start.copy(), np.zeros_like(start), np.array([rows])
        plan = [(x, x), (x, x), (x, z)]
        ops = operations(
            *(
                write(
                    record.ELEMENTWISE, kernel=kernels.address("add"), x=source, y=y, out=out, width=5, count=count,
                    wait=int(not chained or i == 2), chain=3 * (chained and i == 0),
                )
                for i, (source, out) in enumerate(plan)
            )
        )  # fmt: skip
        workers(threads).run(ops.ctypes.data, 3, 0)
        assert (x == start + 2 * y).all() and (z == start + 3 * y).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 15, 33, 37, 100])
def test_a_worker_has_the_same_rows_in_chains_of_any_length(kernels, threads, rows):
    """Workers run by hand, one at a time, each over a copy of the rows: which of them it has changed."""
    ones, count = np.ones((rows, 5), np.float32), np.array([rows])
    own, sync = np.zeros((3, threads, rows), bool), layout.aligned(layout.sync_bytes(threads))
    for length in (1, 2, 3):
        for thread in range(threads):
            x = np.zeros_like(ones)
            fields = {"kernel": kernels.address("add"), "x": x, "y": ones, "out": x, "width": 5, "count": count}
            ops = operations(*(write(record.ELEMENTWISE, chain=length * (i == 0), **fields) for i in range(length)))
            kernels.call("run", ops, length, 0, thread, threads, sync, 0)
            own[length - 1, thread] = (x == length).all(axis=1)
    assert (own == own[0]).all() and (own.sum(axis=1) == 1).all()


def test_a_worker_that_waits_long_gives_its_core_away(kernels):
    """Two workers run by hand; the second comes late."""
    function, cells = kernels.build(4, pass_on), np.zeros((3, 2), np.int64)
    ops = operations(*(write(PASS, kernel=function, wait=1, cells=row) for row in cells[:-1]))
    aside = np.zeros(1, np.int64)
    sync = layout.aligned(layout.sync_bytes(2))
    sync[layout.SYNC_STEP_ASIDE : layout.SYNC_STEP_ASIDE + 8].view(np.int64)[0] = kernels.build(0, counts(aside))
    early = threading.Thread(target=kernels.call, args=("run", ops, 2, 0, 0, 2, sync, 0))
    early.start()
    time.sleep(0.05)
    assert early.is_alive() and cells[2].sum() == 0
    kernels.call("run", ops, 2, 0, 1, 2, sync, 0)
    early.join(10)
    assert not early.is_alive() and cells.tolist() == [[0, 0], [1, 1], [2, 2]] and aside[0] > 0


def counts(cell):
    """The body of a function that counts its calls in `cell`."""

    def body(e):
        at = e.const(I64, cell.ctypes.data)
        e.store(e.field(at, 0) + 1, at)

    return body
