"""What both backends promise: they refuse the same steps, unharmed, and keep sequences apart from each other."""

import numpy as np
import pytest

from edgeinfer import plan
from edgeinfer.backend import Chunk
from edgeinfer.cpu import CpuBackend
from edgeinfer.errors import BackendError, ContextFullError, RequestError
from edgeinfer.formats import gguf
from edgeinfer.reference import ReferenceBackend
from tests import tiny

IDS = np.random.default_rng(5).integers(0, tiny.VOCAB, 30).tolist()


def step(backend, *chunks):
    logits = np.full((sum(c.outputs for c in chunks), backend.n_vocab), np.nan, np.float32)
    backend.step(chunks, logits)
    return logits


@pytest.fixture(params=["reference", "cpu"])
def backend(request, tmp_path):
    with gguf.open(tiny.write(tmp_path / "m.gguf", "gemma3")) as file:
        traced = plan.trace(file)
        if request.param == "reference":
            yield ReferenceBackend(traced, n_ctx=40, n_batch=30, n_seq=2)
            return
        made = CpuBackend(traced, 40, 2, "f16", 30, 2)
        yield made
        made.close()


def test_sequences_are_few_and_come_back_empty(backend):
    first, second = backend.open(), backend.open()
    step(backend, Chunk(first, IDS, 1))
    with pytest.raises(BackendError, match="all 2 sequences are in use"):
        backend.open()
    backend.close_sequence(first)
    for use in (backend.length, backend.close_sequence):
        with pytest.raises(RequestError, match=f"sequence {first} is not open"):
            use(first)
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
    "no such sequence": ([Chunk(7, [1], 1)], RequestError, "sequence 7 is not open"),
}


@pytest.mark.parametrize("chunks, error, text", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_steps_change_nothing(backend, chunks, error, text):
    seq = backend.open()
    step(backend, Chunk(seq, IDS[:20], 1))
    with pytest.raises(error, match=text):
        step(backend, *chunks)
    assert backend.length(seq) == 20
    want = step(backend, Chunk(seq, IDS[20:25], 1))
    backend.cut(seq, 0)
    step(backend, Chunk(seq, IDS[:20], 1))
    assert (step(backend, Chunk(seq, IDS[20:25], 1)) == want).all()


def test_logits_of_another_shape_are_refused(backend):
    seq = backend.open()
    with pytest.raises(RequestError, match=r"must be float32\(1, 300\)"):
        backend.step([Chunk(seq, [1], 1)], np.zeros((2, 300), np.float32))
