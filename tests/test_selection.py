"""The largest logits without the others: the same to the last bit, by the view of the output matrix or not."""

from threading import Event, Thread

import numpy as np
import pytest

from edgeinfer import LLM, screen, selection
from edgeinfer.backend import Chunk, top
from edgeinfer.cpu import CpuBackend
from edgeinfer.formats import gguf
from edgeinfer.plan import trace
from edgeinfer.reference import ReferenceBackend
from edgeinfer.sampling import MOST_TOP, Sampler
from edgeinfer.sampling_params import SamplingParams
from edgeinfer.simd_kernels.layout import DIRECTIONS
from tests import tiny, views

IDS = [int(i) for i in np.random.default_rng(0).integers(0, tiny.VOCAB, 40)]


@pytest.fixture
def soon(monkeypatch):
    views.soon(monkeypatch)


def model(folder, kind="Q8_0", arch="llama"):
    return tiny.write(folder / "model.gguf", arch, kind)


def cpu(path, n_seq=2):
    return CpuBackend(trace(gguf.open(path)), 64, 2, "f16", 64, n_seq)


def same(got, want):
    bits = [np.float32(top.logits).view(np.int32).tolist() for top in (got, want)]
    return got.ids == want.ids and bits[0] == bits[1]


def compare(backend, ids=IDS):
    """Steps that want some logits beside steps that give all."""
    few, all_of_them = backend.open(), backend.open()
    logits = np.empty((1, backend.n_vocab), np.float32)
    for number, id in enumerate(ids):
        k = (1, 5, MOST_TOP)[number % 3]
        got = backend.step_top(Chunk(few, [id], 1), k)
        backend.step([Chunk(all_of_them, [id], 1)], logits)
        assert same(got, top(logits[0], k)), number


@pytest.mark.parametrize("kind", ["Q8_0", "Q6_K", "Q4_0", "F16", "F32"])
@pytest.mark.parametrize("arch", ["llama", "gemma3"])
def test_all_logits_are_computed_and_few_looked_at(tmp_path, kind, arch):
    backend = cpu(model(tmp_path, kind, arch))
    compare(backend)
    backend.close()


@pytest.mark.parametrize("kind", ["Q8_0", "Q6_K", "Q4_0", "F16", "F32"])
def test_a_view_of_the_matrix_gives_the_same(tmp_path, soon, kind):
    backend = cpu(model(tmp_path, kind))
    compare(backend)
    assert backend._selection._screen.ready
    backend.close()


def test_a_view_that_leaves_many_rows_is_seldom_used(tmp_path, soon, monkeypatch):
    """Random models leave all rows."""
    monkeypatch.setattr(selection, "RETRY", 5)
    backend = cpu(model(tmp_path), 3)
    compare(backend, IDS[:20])
    seq, used = backend.open(), []
    for id in IDS[:20]:
        backend.step_top(Chunk(seq, [id], 1), 40)
        used.append(bool(backend._selection.count("rescored")))
    assert backend._selection._shares[40] > selection.MOST_SHARE and used.count(True) in (4, 5)
    backend.close()


def test_deterministic_backends_compute_all(tmp_path, soon):
    backend = CpuBackend(trace(gguf.open(model(tmp_path))), 64, 2, "f16", 64, 2, deterministic=True)
    compare(backend, IDS[:12])
    backend.close()


def test_a_step_of_many_tokens(tmp_path, soon):
    backend = cpu(model(tmp_path))
    compare(backend, IDS[:20])
    backend.cut(0, 0), backend.cut(1, 0)
    logits = np.empty((1, backend.n_vocab), np.float32)
    backend.step([Chunk(1, IDS, 1)], logits)
    assert same(backend.step_top(Chunk(0, IDS, 1), 40), top(logits[0], 40))
    backend.close()


def test_reference(tmp_path):
    backend = ReferenceBackend(trace(gguf.open(model(tmp_path))), 64, 64, 2)
    compare(backend, IDS[:6])


def test_logits_that_are_not_finite_end_the_view(tmp_path, soon):
    backend = cpu(model(tmp_path, "F32"))
    compare(backend, IDS[:12])
    assert backend._selection._screen.ready
    backend._selection._screen._view[:] = 255  # the scales are NaN
    logits = np.empty((1, backend.n_vocab), np.float32)
    got = backend.step_top(Chunk(0, [5], 1), 3)
    backend.step([Chunk(1, [5], 1)], logits)
    assert same(got, top(logits[0], 3)) and backend._selection._screen is None
    backend.close()


SAMPLINGS = [
    {"temperature": 0.0},
    {},
    {"top_k": MOST_TOP, "top_p": 1.0},
    {"top_k": 3, "min_p": 0.0, "temperature": 2.0},
]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_the_same_seed_gives_the_tokens_that_all_logits_give(tmp_path, soon, monkeypatch, sampling, backend):
    with LLM(model(tmp_path), n_ctx=64, backend=backend) as llm:
        few = [llm.generate(IDS[:4], 40, seed=seed, ignore_eos=True, **sampling).ids for seed in range(3)]
        monkeypatch.setattr(Sampler, "top", 0)
        assert few == [llm.generate(IDS[:4], 40, seed=seed, ignore_eos=True, **sampling).ids for seed in range(3)]


@pytest.mark.parametrize(
    "params, needed",
    [
        ({}, 40),
        ({"temperature": 0.0}, 1),
        ({"top_k": 64}, 64),
        ({"top_k": 65}, 0),
        ({"top_k": 0}, 0),
        ({"repeat_penalty": 1.1}, 0),
        ({"temperature": 0.0, "presence_penalty": 0.1}, 0),
        ({"temperature": 0.0, "frequency_penalty": 0.1}, 0),
        ({"temperature": 0.0, "logit_bias": {3: 1.0}}, 0),
    ],
)
def test_how_many_logits_a_choice_needs(params, needed):
    assert Sampler(SamplingParams(**params), 100).top == needed


@pytest.mark.parametrize("kind, worthwhile", [("F32", True), ("F16", True), ("Q5_0", False), ("Q4_0", False)])
def test_a_view_is_worthwhile_where_it_saves_much(tmp_path, kind, worthwhile):
    plan = trace(gguf.open(model(tmp_path, kind)))
    rows, cols = plan.tensors[plan.ops[-1].weights[0]].shape
    assert screen.view_bytes(plan) in (0, screen.matrix_bytes(rows, cols))
    assert (screen.view_bytes(plan) > 0) == worthwhile


def test_no_step_waits_for_the_pages_of_a_view(tmp_path, soon, monkeypatch):
    go_on = Event()
    monkeypatch.setattr(screen, "Thread", lambda **_: Thread(target=go_on.wait, daemon=True))
    backend = cpu(model(tmp_path), 4)
    compare(backend, IDS[:12])
    assert not backend._selection._screen._built
    go_on.set()
    backend._selection._screen._touch.join()
    compare(backend, IDS[12:14])
    assert backend._selection._screen.ready
    backend.close()


def test_coded_directions_are_near_those_found():
    found = np.linalg.qr(np.random.default_rng(0).standard_normal((96, DIRECTIONS)))[0].T.astype(np.float32)
    found[3], found[:, :32] = 0, 0
    again, data = screen.coded(found)
    assert np.abs(again - found).max() <= np.abs(found).max() / 254 * 1.001 and not again[3].any()
    blocks = data.reshape(3, -1)
    codes = blocks[:, : 32 * DIRECTIONS].view(np.int8).reshape(3, DIRECTIONS, 32)
    sums, scales = (blocks[:, (32 + i) * DIRECTIONS :][:, : 4 * DIRECTIONS].copy() for i in (0, 4))
    assert (sums.view(np.int32) == -128 * codes.sum(-1, dtype=np.int32)).all()
    assert (np.concatenate(codes * scales.view(np.float32)[..., None], 1) == again).all()


def test_directions_hold_what_activations_have_in_common():
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.standard_normal((64, 5)))
    seen = (rng.standard_normal((30, 5)) @ basis.T).astype(np.float32)
    found = screen.directions(seen)
    assert np.allclose(found @ found.T, np.eye(len(found)), atol=1e-5)
    assert np.allclose(seen @ found.T @ found, seen, atol=1e-4)
