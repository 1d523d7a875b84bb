"""The reference backend: the bookkeeping of sequences.  What ops compute is tested in reference_ops/."""

import numpy as np
import pytest

from edgeinfer import plan
from edgeinfer.backend import Chunk
from edgeinfer.errors import BackendError, ContextFullError, RequestError
from edgeinfer.formats import gguf
from edgeinfer.reference import ReferenceBackend
from tests import tiny


@pytest.fixture
def backend(tmp_path):
    with gguf.open(tiny.write(tmp_path / "m.gguf", "gemma3")) as file:
        yield ReferenceBackend(plan.trace(file), n_ctx=40, n_batch=30, n_seq=2)


IDS = np.random.default_rng(5).integers(0, tiny.VOCAB, 30).tolist()


def step(backend, *chunks):
    logits = np.full((sum(c.outputs for c in chunks), backend.n_vocab), np.nan, np.float32)
    backend.step(chunks, logits)
    return logits


def test_sequences_in_one_step_do_not_see_each_other(backend):
    one, two = backend.open(), backend.open()
    alone = step(backend, Chunk(one, IDS[:20], 20))
    backend.cut(one, 5)
    both = step(backend, Chunk(two, IDS[:10], 10), Chunk(one, IDS[5:20], 2))
    assert both[:10] == pytest.approx(alone[:10], abs=2e-5)
    assert both[10:] == pytest.approx(alone[18:], abs=2e-5)
    assert (backend.length(one), backend.length(two)) == (20, 10)


def test_cut_forgets(backend):
    seq = backend.open()
    whole = step(backend, Chunk(seq, IDS, 30))
    assert backend.cut(seq, 12) == 12 == backend.length(seq)
    step(backend, Chunk(seq, IDS[:7], 0))
    assert backend.cut(seq, 12) == 12
    assert step(backend, Chunk(seq, IDS[12:], 18)) == pytest.approx(whole[12:], abs=2e-5)
    with pytest.raises(RequestError, match="cannot be cut to 31"):
        backend.cut(seq, 31)


def test_sequences_are_few_and_come_back_empty(backend):
    first, second = backend.open(), backend.open()
    step(backend, Chunk(first, IDS, 1))
    with pytest.raises(BackendError, match="all 2 sequences are in use"):
        backend.open()
    backend.close_sequence(first)
    with pytest.raises(RequestError, match=f"sequence {first} is not open"):
        backend.length(first)
    assert backend.open() == first and backend.length(first) == backend.length(second) == 0


IMPOSSIBLE = {
    "no tokens": ([Chunk(0, [], 0)], RequestError, "a step of 0 tokens; must be 1..30"),
    "beyond the batch": ([Chunk(0, [1] * 31, 0)], RequestError, "a step of 31 tokens"),
    "beyond the context": ([Chunk(0, [1] * 21, 0)], ContextFullError, "41 tokens do not fit into the context of 40"),
    "twice a sequence": ([Chunk(0, [1], 0), Chunk(0, [1], 0)], RequestError, "two chunks of one sequence"),
    "an empty chunk": ([Chunk(0, [1], 0), Chunk(1, [], 0)], RequestError, "a chunk of 0 tokens"),
    "many outputs": ([Chunk(0, [1], 2)], RequestError, "a chunk of 1 tokens with 2 outputs"),
    "no such token": ([Chunk(0, [1, 300], 1)], RequestError, "token 300 is not in the vocabulary, 0..299"),
    "negative token": ([Chunk(0, [-1], 1)], RequestError, "token -1 is not in"),
    "not open": ([Chunk(1, [1], 1)], RequestError, "sequence 1 is not open"),
}


@pytest.mark.parametrize("chunks, error, text", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_impossible_steps_change_nothing(backend, chunks, error, text):
    seq = backend.open()
    step(backend, Chunk(seq, IDS[:20], 1))
    with pytest.raises(error, match=text):
        step(backend, *chunks)
    assert backend.length(seq) == 20


def test_logits_of_another_shape_are_refused(backend):
    seq = backend.open()
    with pytest.raises(RequestError, match=r"must be float32\(1, 300\)"):
        backend.step([Chunk(seq, [1], 1)], np.zeros((2, 300), np.float32))


def test_weights_that_are_not_finite_run(tmp_path):
    def edit(keys, tensors):
        tensors["output_norm.weight"][0][3] = np.inf
        tensors["token_embd.weight"][0][7] = np.nan

    with gguf.open(tiny.write(tmp_path / "m.gguf", edit=edit)) as file:
        broken = ReferenceBackend(plan.trace(file), 8, 8, 1)
        assert not np.isfinite(step(broken, Chunk(broken.open(), [1, 7], 2))).any()
