"""The pool and the steps, over a backend whose logits depend on every token it was given: a fault in reuse shows."""

import gc
import os
import signal
import threading
import time
import types
import zlib

import numpy as np
import pytest

from edgeinfer.backend import check_step
from edgeinfer.engine import Engine
from edgeinfer.errors import BackendError, ContextFullError, RequestError

VOCAB = 50


class HashBackend:
    """Logits are drawn from a hash of all tokens up to the position.  `ring`: cuts further back give 0.

    `grain`: cuts go down to a multiple of it, as where copies of states are kept."""

    def __init__(self, n_ctx=64, n_batch=8, n_seq=2, ring=None, grain=1, fits=99, pause=0.0):
        self.n_ctx, self.n_batch, self.n_seq, self.n_vocab = n_ctx, n_batch, n_seq, VOCAB
        self.sequences, self.steps, self.ring, self.fits, self.closed = {}, [], ring, fits, 0
        self.pause, self.running, self.grain = pause, threading.Lock(), grain
        self.plan = types.SimpleNamespace(width=VOCAB, pooling="", causal=True, reader=None)

    def open(self):
        if len(self.sequences) >= min(self.n_seq, self.fits):
            raise BackendError("no room")
        self.sequences[len(self.sequences)] = []
        return len(self.sequences) - 1

    def length(self, seq):
        return len(self.sequences[seq])

    def cut(self, seq, length):
        if self.ring is not None and self.length(seq) - length > self.ring:
            length = 0
        length -= length % self.grain
        del self.sequences[seq][length:]
        return length

    def step(self, chunks, logits):
        check_step(self, chunks, logits)
        assert self.running.acquire(blocking=False), "two steps at once"
        time.sleep(self.pause)  # other threads run meanwhile, as they do during a compiled step
        row = 0
        for chunk in chunks:
            self.steps.append((chunk.seq, len(chunk.ids)))
            for i, token in enumerate(chunk.ids):
                self.sequences[chunk.seq].append(token)
                if i >= len(chunk.ids) - chunk.outputs:
                    logits[row] = expected(self.sequences[chunk.seq])
                    row += 1
        self.running.release()

    def close(self):
        self.closed += 1


def expected(ids):
    return np.random.default_rng(zlib.crc32(repr(list(ids)).encode())).random(VOCAB, dtype=np.float32)


def run(engine, ids, tokens=3, reuse=True):
    """Reads ids and goes on greedily; the tokens that follow and how many were cached."""
    logits = np.empty((1, VOCAB), np.float32)
    with engine.sequence(ids, reuse) as sequence:
        cached = sequence.held
        for _ in range(tokens):
            engine.read(sequence, logits)
            sequence.ids.append(int(logits[0].argmax()))
        return sequence.ids[len(ids) :], cached


def truth(ids, tokens=3):
    ids = list(ids)
    for _ in range(tokens):
        ids.append(int(expected(ids).argmax()))
    return ids[-tokens:]


def test_prompt_is_read_in_steps_of_n_batch():
    engine = Engine(backend := HashBackend(n_batch=8))
    assert run(engine, range(20), tokens=1)[0] == truth(range(20), 1)
    assert [n for _, n in backend.steps] == [8, 8, 4]


@pytest.mark.parametrize("outputs", [1, 3, 4, 5, 11, 20])
def test_logits_of_the_last_positions_across_steps(outputs):
    engine = Engine(HashBackend(n_batch=8))
    logits = np.empty((outputs, VOCAB), np.float32)
    with engine.sequence(range(20)) as sequence:
        engine.read(sequence, logits)
    for row, end in zip(logits, range(21 - outputs, 21), strict=True):
        assert np.array_equal(row, expected(range(end)))


def test_same_prompt_again_reads_only_its_last_token():
    engine = Engine(backend := HashBackend())
    first, cached = run(engine, range(10))
    assert (first, cached) == (truth(range(10)), 0)
    del backend.steps[:]
    assert run(engine, range(10), tokens=1) == (first[:1], 9)
    assert backend.steps == [(0, 1)]


def test_continuation_reads_only_what_is_new():
    engine = Engine(HashBackend())
    answer, _ = run(engine, range(10))
    longer = [*range(10), *answer, 7, 8]
    assert run(engine, longer) == (truth(longer), 10 + len(answer) - 1)  # the answer's last token was never read


def test_reuse_off_reads_everything():
    engine = Engine(HashBackend())
    run(engine, range(10))
    assert run(engine, range(10), reuse=False) == (truth(range(10)), 0)


def test_other_prompt_takes_a_fresh_sequence_rather_than_a_long_unlike_one():
    engine = Engine(HashBackend(n_seq=2))
    run(engine, range(20))
    assert run(engine, [0, 1, 30, 31])[1] == 0
    assert run(engine, range(20))[1] == 19, "the first conversation was dropped for two common tokens"


def test_longest_unused_is_dropped_when_all_are_taken_and_what_it_shares_is_kept():
    engine = Engine(HashBackend(n_seq=2))
    run(engine, range(20))
    run(engine, range(30, 45))
    third = [*range(5), *range(20, 30)]
    assert run(engine, third) == (truth(third), 5)
    assert run(engine, range(30, 45))[1] == 14


def test_what_a_cut_takes_away_beyond_what_was_asked_is_read_again():
    engine = Engine(backend := HashBackend(grain=4))
    run(engine, range(10))
    del backend.steps[:]
    assert run(engine, [*range(7), 30, 31, 32], tokens=1) == (truth([*range(7), 30, 31, 32], 1), 4)
    assert backend.steps == [(0, 6)]


def test_ring_that_forgot_is_read_again():
    engine = Engine(HashBackend(ring=2))
    run(engine, range(12), tokens=2)
    prompt = [*range(9), 40]
    assert run(engine, prompt) == (truth(prompt), 0)


def test_no_memory_for_another_sequence_uses_an_idle_one():
    engine = Engine(HashBackend(n_seq=4, fits=1))
    run(engine, range(10))
    assert run(engine, range(20, 30)) == (truth(range(20, 30)), 0)
    with pytest.raises(BackendError, match="no room"):
        run(Engine(HashBackend(fits=0)), [1])


def test_failed_request_leaves_nothing_to_reuse():
    engine = Engine(HashBackend(n_ctx=16))
    with pytest.raises(ContextFullError, match="17 tokens"):
        run(engine, range(16), tokens=2)
    assert engine.idle_ids() == [[]]
    assert run(engine, range(10)) == (truth(range(10)), 0)


def test_interrupted_request_keeps_what_was_read():
    engine = Engine(HashBackend())
    with pytest.raises(KeyboardInterrupt), engine.sequence(range(10)) as sequence:
        engine.read(sequence, np.empty((1, VOCAB), np.float32))
        raise KeyboardInterrupt
    assert run(engine, range(12)) == (truth(range(12)), 10)


def test_an_interrupt_while_a_sequence_is_given_back_loses_it_not():
    backend = HashBackend(n_seq=1)
    engine, cut = Engine(backend), backend.cut

    def interrupted(seq, length):
        backend.cut = cut
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), engine.sequence([1, 2, 3]) as sequence:
        engine.read(sequence, np.empty((1, VOCAB), np.float32))
        backend.cut = interrupted
        sequence.ids.pop()
    with engine.sequence([4, 5]) as sequence:  # the only one there is
        assert sequence.held == 0


def test_threads_take_turns_and_all_are_served():
    engine = Engine(backend := HashBackend(n_ctx=128, n_seq=3))
    results = {}

    def work(number):
        prompt = [number, *range(number)]
        results[number] = [run(engine, prompt, tokens=20)[0] == truth(prompt, 20) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {n: [True] * 5 for n in range(8)}
    assert len(engine.idle_ids()) == 3 == len(backend.sequences)


def test_steps_of_two_threads_alternate():
    engine = Engine(backend := HashBackend(n_ctx=256, pause=0.0005))
    both = threading.Barrier(2)

    def work(number):
        with engine.sequence([number]) as sequence:
            both.wait(60)
            for _ in range(200):
                engine.read(sequence, np.empty((1, VOCAB), np.float32))
                sequence.ids.append(3)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    order = [seq for seq, _ in backend.steps]
    assert order.count(0) == order.count(1) == 200
    assert 90 <= order[:200].count(0) <= 110


def test_one_thread_cannot_wait_for_itself():
    engine = Engine(HashBackend(n_seq=2))
    with engine.sequence([1]), engine.sequence([2]), pytest.raises(BackendError, match="all 2 sequences"):
        run(engine, [3])
    assert run(engine, [3])[0] == truth([3])


def test_closed_engine_refuses_and_closes_once():
    engine = Engine(backend := HashBackend())
    with pytest.raises(RequestError, match="closed"), engine.sequence([1]) as sequence:
        engine.close()
        engine.close()
        engine.read(sequence, np.empty((1, VOCAB), np.float32))
    with pytest.raises(RequestError, match="closed"):
        run(engine, [1])
    assert backend.closed == 1


def test_forgotten_engine_closes_its_backend():
    backend = HashBackend()
    run(Engine(backend), [1])
    gc.collect()
    assert backend.closed == 1


def test_close_wakes_those_who_wait():
    engine = Engine(HashBackend(n_seq=1))
    errors = []

    def wait():
        try:
            run(engine, [1])
        except RequestError as error:
            errors.append(str(error))

    with engine.sequence([2]):
        thread = threading.Thread(target=wait)
        thread.start()
        engine.close()
        thread.join(60)
    assert not thread.is_alive() and "closed" in errors[0]


def in_fork(work):
    """What `work` is in a forked process, as text; "" where that hangs or dies."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(30)
        try:
            os.write(writes, str(work()).encode())
        finally:
            os._exit(0)
    os.close(writes)
    with open(reads) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


needs_fork = pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="needs fork")


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_keeps_what_its_own_thread_holds_and_frees_the_rest():
    engine = Engine(HashBackend(n_seq=2))
    held, ends = threading.Event(), threading.Event()

    def hold():
        with engine.sequence([1]):
            held.set()
            ends.wait(60)

    def work():
        engine.read(own, logits := np.empty((1, VOCAB), np.float32))
        return np.array_equal(logits[0], expected([2])) and run(engine, [3])[0] == truth([3])

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    with engine.sequence([2]) as own:
        assert in_fork(work) == "True"
    ends.set()
    thread.join(60)


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_amid_a_step_of_another_thread_is_told_so():
    engine = Engine(backend := HashBackend())
    inside, ends = threading.Event(), threading.Event()

    def step(chunks, logits):
        inside.set()
        ends.wait(60)

    def work():
        with pytest.raises(BackendError, match="forked in the middle of a step"):
            run(engine, [1])
        engine.close()
        return "refused"

    backend.step = step
    thread = threading.Thread(target=run, args=(engine, [1], 1))
    thread.start()
    inside.wait(60)
    assert in_fork(work) == "refused"
    ends.set()
    thread.join(60)
    engine.check_open()  # nothing is wrong here
