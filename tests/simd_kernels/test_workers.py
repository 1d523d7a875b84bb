"""Workers: threads that run steps together, sleep in between and end when told, whatever interrupts their caller."""

import multiprocessing
import signal
import threading

import numpy as np
import pytest

from edgeinfer.errors import BackendError
from edgeinfer.simd_kernels import record
from edgeinfer.simd_kernels.workers import Workers
from tests.simd_kernels.harness import write

MARK = record.operation("cells")  # i64[threads]


def mark(e, op, step, thread, threads):
    """cells[thread] += step"""
    cell = e.field(op, MARK.names.index("cells")) + thread * 8
    e.store(e.field(cell, 0) + step, cell)


def marking(kernels, cells):
    """The record of an operation that marks, and has the workers wait."""
    return write(MARK, kernel=kernels.build(4, mark), wait=1, cells=cells)


def started(threads, run):
    """Workers and the threads that came with them."""
    before = set(threading.enumerate())
    workers = Workers(threads, run)
    return workers, set(threading.enumerate()) - before


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_every_worker_runs_every_step(kernels, threads):
    cells = np.zeros(threads, np.int64)
    op = marking(kernels, cells)
    workers = Workers(threads, kernels.address("run"))
    for step in range(1, 201):
        workers.run(op.ctypes.data, 1, step)
        assert (cells == step * (step + 1) // 2).all()  # all are done when run returns
    workers.close()


def test_some_of_the_workers_take_part(kernels):
    cells = np.zeros(3, np.int64)
    op = marking(kernels, cells)
    workers = Workers(3, kernels.address("run"))
    for step, threads in enumerate((1, 3, 2, None, 1, 2)):
        workers.run(op.ctypes.data, 1, 10**step, threads)
    assert cells.tolist() == [111111, 101110, 1010]
    workers.close()


def test_times_add_up(kernels):
    """Of each worker that took part, and nobody waits longer than it runs."""
    op = marking(kernels, np.zeros(3, np.int64))
    workers, before = Workers(3, kernels.address("run")), np.zeros(2, np.int64)
    for _ in range(20):
        workers.run(op.ctypes.data, 1, 0, 2)
        ran = np.array(workers.times())
        assert (ran[0] >= before).all() and (ran[:, 1] <= ran[:, 0]).all() and not ran[2].any()
        before = ran[0]
    if kernels.tier.machine:  # the portable tier reads no clock
        assert before.all()
    workers.close()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="interrupts are timed with setitimer")
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_an_interrupt_comes_before_a_step_or_after_it(kernels, threads):
    cells = np.zeros(threads, np.int64)
    op = marking(kernels, cells)
    workers = Workers(threads, kernels.address("run"))
    usual = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for turn in range(600):
            before = cells.copy()
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + turn % 150))
                for _ in range(20):
                    workers.run(op.ctypes.data, 1, 1)
                while True:  # it comes here at the latest
                    pass
            except KeyboardInterrupt:
                assert len({*(cells - before)}) == 1  # all workers have done the same steps, none is under way
    finally:
        signal.signal(signal.SIGALRM, usual)
        workers.close()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(kernels):
    cells = np.zeros(3, np.int64)
    op = marking(kernels, cells)
    workers = Workers(3, kernels.address("run"))

    def run():
        workers.run(op.ctypes.data, 1, 1)
        assert (cells == 1).all()

    forked(run)
    run()
    workers.close()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_waits_for_nobody(kernels):
    """Not for a worker that was late in its parent, either."""
    workers = Workers(2, kernels.address("run"))
    workers._given[0] += 1
    forked(workers.close)
    workers._given[0] -= 1
    workers.close()


def forked(function):
    child = multiprocessing.get_context("fork").Process(target=function)
    child.start()
    child.join(20)
    child.kill()
    assert child.exitcode == 0


def test_too_few_threads_are_an_error_and_none_stays(kernels, monkeypatch):
    before, start = set(threading.enumerate()), threading.Thread.start

    def refuse(thread):
        if thread.name == "edgeinfer-3":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(BackendError, match="no more than 3 of 8 threads"):
        Workers(8, kernels.address("run"))
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
    assert set(threading.enumerate()) <= before


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
