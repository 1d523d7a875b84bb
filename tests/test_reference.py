"""The reference backend: the bookkeeping of sequences.  What ops compute is tested in reference_ops/."""

import numpy as np
import pytest

from edgeinfer import plan
from edgeinfer.backend import Chunk
from edgeinfer.errors import RequestError
from edgeinfer.formats import gguf
from edgeinfer.reference import ReferenceBackend
from tests import tiny
from tests.test_backend import step


@pytest.fixture
def backend(tmp_path):
    with gguf.open(tiny.write(tmp_path / "m.gguf", "gemma3")) as file:
        yield ReferenceBackend(plan.trace(file), n_ctx=40, n_batch=30, n_seq=2)


IDS = np.random.default_rng(5).integers(0, tiny.VOCAB, 30).tolist()


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


def test_weights_that_are_not_finite_run(tmp_path):
    def edit(keys, tensors):
        tensors["output_norm.weight"][0][3] = np.inf
        tensors["token_embd.weight"][0][7] = np.nan

    with gguf.open(tiny.write(tmp_path / "m.gguf", edit=edit)) as file:
        broken = ReferenceBackend(plan.trace(file), 8, 8, 1)
        assert not np.isfinite(step(broken, Chunk(broken.open(), [1, 7], 2))).any()
