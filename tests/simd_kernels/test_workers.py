"""Workers: threads that run steps together, sleep in between and end when told."""

import threading
import time

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


def own_threads():
    return [t for t in threading.enumerate() if t.name.startswith("edgeinfer-")]


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
    before = len(own_threads())
    workers = Workers(4, kernels.address("run"))
    assert len(own_threads()) == before + 3
    workers.close()
    workers.close()
    for _ in range(100):
        if len(own_threads()) <= before:
            break
        time.sleep(0.02)
    assert len(own_threads()) <= before


def test_threads_do_not_keep_the_process_alive(kernels):
    workers = Workers(2, kernels.address("run"))
    assert all(t.daemon for t in own_threads())
    workers.close()
