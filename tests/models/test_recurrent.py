"""Recurrent and hybrid models of the kit on the cpu backend: cuts, sequences side by side, threads, broken steps."""

import json

import numpy as np
import pytest

import edgeinfer
from edgeinfer import plan
from edgeinfer.backend import Chunk
from edgeinfer.cpu import CpuBackend
from edgeinfer.formats import gguf
from tests.models import oracle

NAMES = ["mamba", "mamba2", "rwkv6", "rwkv7", "lfm2", "jamba", "falcon-h1", "qwen3next"]
TIGHT = 1e-4  # sums in another order, layer after layer


@pytest.fixture(params=NAMES)
def path(request, shared):
    return shared / "kit" / "arch" / f"{request.param}.gguf"


@pytest.fixture
def prompt(path):
    return json.loads(path.with_suffix(".json").read_text())["prompt"]


@pytest.fixture
def backends(path):
    """A function that makes a cpu backend for the model, which is closed at the end."""
    made = []

    def make(n_ctx=64, n_threads=2, n_batch=64, n_seq=1):
        made.append(CpuBackend(plan.trace(gguf.open(path), n_ctx), n_ctx, n_threads, "f32", n_batch, n_seq))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


def fresh(backend, ids):
    """The last logits of ids in an empty sequence."""
    seq = backend.open()
    logits = oracle.run(backend, seq, ids, [len(ids)])
    backend.close_sequence(seq)
    return logits[-1]


def test_cut_and_continued_is_as_if_nothing_had_been(backends):
    backend, rng, outcomes = backends(n_batch=12, n_seq=2), np.random.default_rng(0), set()
    held: list[list[int]] = [[], []]
    seqs, want = [backend.open(), backend.open()], {}
    for _ in range(60):
        which = int(rng.integers(2))
        ids, seq = held[which], seqs[which]
        if len(ids) > 50 or rng.random() < 0.4:
            length = int(rng.integers(max(0, len(ids) - 15), min(50, len(ids)) + 1))
            kept = backend.cut(seq, length)
            assert kept <= length and kept == backend.length(seq)
            outcomes.add((kept == length, kept > 0))
            del ids[kept:]
        new = [int(i) for i in rng.integers(0, backend.n_vocab, rng.choice([1, 1, 3, 12]))]
        ids += new
        want[tuple(ids)] = oracle.run(backend, seq, new, [len(new)])[-1]
    other = backends()
    assert max(np.abs(got - fresh(other, list(ids))).max() for ids, got in want.items()) <= TIGHT
    assert outcomes >= {(True, True), (False, True), (False, False)}


def test_sequences_in_a_step_are_each_alone(backends, prompt):
    backend = backends(n_seq=3)
    texts = [prompt[:9], prompt[5:6], prompt[2:15]]
    want = [fresh(backend, ids + [7]) for ids in texts]
    seqs = [backend.open() for _ in texts]
    got = np.empty((3, backend.n_vocab), np.float32)
    backend.step([Chunk(seq, ids, 0) for seq, ids in zip(seqs, texts, strict=True)], got[:0])
    backend.step([Chunk(seq, [7], 1) for seq in seqs], got)
    assert np.abs(got - np.array(want)).max() <= TIGHT


def test_the_number_of_threads_changes_no_bit(backends, prompt):
    each = [backends(n_threads=n) for n in (1, 2, 3)]
    one, *others = (oracle.run(backend, backend.open(), prompt, oracle.ODD_PIECES * 9) for backend in each)
    assert np.isfinite(one).all() and all((other == one).all() for other in others)


def test_a_closed_sequence_leaves_nothing_behind(backends, prompt):
    backend = backends()
    want = fresh(backend, prompt)
    seq = backend.open()
    oracle.run(backend, seq, prompt[::-1], [len(prompt)])
    backend.close_sequence(seq)
    assert (fresh(backend, prompt) == want).all()


@pytest.mark.parametrize("before", [0, 10])
def test_after_a_step_that_broke_off_one_goes_on_from_before_it(backends, prompt, before, monkeypatch):
    """Ctrl-C is seen after the kernels have run, so the states have moved on but the length has not."""
    backend = backends()
    want, seq, run = fresh(backend, prompt), backend.open(), backend._workers.run
    if before:
        oracle.run(backend, seq, prompt[:before], [before])

    def broken(*args):
        run(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(backend._workers, "run", broken)
    with pytest.raises(KeyboardInterrupt):
        oracle.run(backend, seq, prompt[before : before + 3], [3])
    monkeypatch.undo()
    held = backend.length(seq)
    assert held == max(before - 1, 0)  # the copy
    assert np.abs(oracle.run(backend, seq, prompt[held:], [len(prompt)])[-1] - want).max() <= TIGHT


def test_text_goes_on_from_what_was_read(path, prompt):
    """An answer to a prompt, the same once more, a longer one, one that parts from it: all are as from scratch."""
    options = {"max_tokens": 6, "temperature": 0.0, "ignore_eos": True}
    with edgeinfer.LLM(path, n_ctx=64, n_threads=2, kv_type="f32") as llm:
        first = llm.generate(prompt, **options)
        asked = [prompt, prompt + first.ids + prompt[:3], prompt[:-1] + [9], prompt[:4]]
        got = [llm.generate(ids, **options) for ids in asked]
    assert got[0].ids == first.ids
    assert [one.usage.cached_tokens for one in got][:2] == [len(prompt) - 1, len(prompt) + len(first.ids) - 1]
    for ids, one in zip(asked, got, strict=True):
        with edgeinfer.LLM(path, n_ctx=64, n_threads=2, kv_type="f32") as llm:
            assert llm.generate(ids, **options).ids == one.ids
