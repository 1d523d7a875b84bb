"""Workers: threads that run steps together, sleep in between and end when told."""

import threading

import numpy as np
import pytest

from edgeinfer.simd_kernels import record
from edgeinfer.simd_kernels.workers import Workers
from tests.simd_kernels.harness import write

MARK = record.operation("cells")  # i64[threads]


def mark(e, op, step, thread, threads):
    """cells[thread] += step"""
    cell = e.field(op, MARK.names.index("cells")) + thread * 8
    e.store(e.field(cell, 0) + step, cell)


def started(threads, run):
    """Workers and the threads that came with them."""
    before = set(threading.enumerate())
    workers = Workers(threads, run)
    return workers, set(threading.enumerate()) - before


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_every_worker_runs_every_step(kernels, threads):
    cells = np.zeros(threads, np.int64)
    op = write(MARK, kernel=kernels.build(4, mark), cells=cells)
    workers = Workers(threads, kernels.address("run"))
    for step in range(1, 201):
        workers.run(op.ctypes.data, 1, step)
        assert (cells == step * (step + 1) // 2).all()  # all are done when run returns
    workers.close()


def test_close_ends_the_threads(kernels):
    workers, own = started(4, kernels.address("run"))
    assert len(own) == 3
    workers.close()
    workers.close()
    for thread in own:
        thread.join(5)
    assert not any(thread.is_alive() for thread in own)


def test_threads_do_not_keep_the_process_alive(kernels):
    workers, own = started(2, kernels.address("run"))
    assert all(thread.daemon for thread in own)
    workers.close()
