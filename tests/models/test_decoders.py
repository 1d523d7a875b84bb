"""Architectures of which the kit has no model, against llama.cpp, whose numbers `golden_decoders.py` has kept; on both
backends, in one step and in pieces."""

import contextlib
import dataclasses
import json

import numpy as np
import pytest

import edgeinfer
from edgeinfer import plan
from edgeinfer.backend import Chunk
from edgeinfer.cpu import CpuBackend
from edgeinfer.errors import UnsupportedError
from edgeinfer.formats import gguf
from edgeinfer.reference import ReferenceBackend
from tests.models import oracle
from tests.models.decoders import ANSWERS, CASES, DIM, ENCODERS, KEPT, PAGE, PICTURES_END, PROMPT

GOLDEN = json.loads(PAGE.read_text())
LIMIT = 1e-4  # between our backends
COUNT = len(PROMPT)


def test_every_case_has_its_golden_numbers():
    assert GOLDEN.keys() == CASES.keys() | ENCODERS.keys() | ANSWERS.keys()
    assert {len(GOLDEN[name]) for name in CASES | ANSWERS} == {KEPT} and {len(GOLDEN[name]) for name in ENCODERS} == {
        DIM
    }


@pytest.mark.parametrize("name", CASES)
def test_logits_are_llama_cpps(tmp_path, name):
    case = CASES[name]
    kept, count = slice(case.first, case.first + KEPT), case.length
    with gguf.open(case.write(tmp_path / "m.gguf")) as file:
        traced = plan.trace(file, count)
        reference = ReferenceBackend(traced, count, count, 1)
        wanted = oracle.run(reference, reference.open(), case.prompt, [count])
        assert np.abs(wanted[-1, kept] - GOLDEN[name]).max() < case.tolerance
        with contextlib.closing(CpuBackend(traced, count, 2, "f32", count, 1)) as backend:
            oracle.check_pieces(backend, backend.open(), case.prompt, wanted, LIMIT)


def test_chameleon_draws_no_pictures(tmp_path):
    with gguf.open(CASES["chameleon"].write(tmp_path / "m.gguf")) as file:
        backend = ReferenceBackend(plan.trace(file, COUNT), COUNT, COUNT, 1)
        logits = oracle.run(backend, backend.open(), PROMPT, [COUNT])
    assert (logits[:, 4:PICTURES_END] < -1e30).all() and (
        np.abs(np.delete(logits, range(4, PICTURES_END), 1)) < 10
    ).all()


def test_pools_go_on_from_where_a_step_left_a_copy_and_side_by_side(tmp_path):
    """A cut that takes the last position of a pool of 4 and one of 128 off; then another sequence in the same step."""
    case, ends = CASES["deepseek4-picks"], []
    with gguf.open(case.write(tmp_path / "m.gguf")) as file:
        traced = plan.trace(file, case.length)
        reference = ReferenceBackend(traced, case.length, case.length, 1)
        wanted = oracle.run(reference, reference.open(), case.prompt, [case.length])
        with contextlib.closing(CpuBackend(traced, case.length, 2, "f32", case.length, 2)) as backend:
            one, other = backend.open(), backend.open()
            oracle.run(backend, one, case.prompt[:128], [128])
            assert backend.cut(one, 127) == 127
            logits = np.empty((4, backend.n_vocab), np.float32)
            backend.step([Chunk(one, case.prompt[127:130], 2), Chunk(other, case.prompt[:7], 2)], logits)
            ends = [*logits, *oracle.run(backend, other, case.prompt[7:], [case.length - 7])[-1:]]
    assert np.abs(ends - wanted[[128, 129, 5, 6, -1]]).max() <= LIMIT


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", ENCODERS)
def test_rows_of_encoders_are_llama_cpps(tmp_path, name, backend):
    path = ENCODERS[name].write(tmp_path / "m.gguf")
    with edgeinfer.LLM(path, backend=backend, kv_type="f32", n_threads=2) as llm:
        found = llm.embed([PROMPT], "mean", normalize=False)
    assert np.abs(found[0] - GOLDEN[name]).max() < ENCODERS[name].tolerance


@pytest.mark.parametrize("name", ANSWERS)
def test_logits_of_an_answer_are_llama_cpps(tmp_path, name, home, monkeypatch):
    """But that it does not scale them where the output matrix is the embedding, as T5's authors do."""
    monkeypatch.setenv("EDGEINFER_HOME", str(home))
    factor = 1 if "output.weight" in ANSWERS[name].shapes else DIM**-0.5
    with gguf.open(ANSWERS[name].write(tmp_path / "m.gguf")) as file:
        traced = plan.trace(file, COUNT)
        reference = ReferenceBackend(traced, COUNT, COUNT, 1)
        reference.read_text(reference.open(), PROMPT)
        wanted = oracle.run(reference, 0, PROMPT[::-1], [COUNT])
        assert np.abs(wanted[-1, :KEPT] - factor * np.array(GOLDEN[name])).max() < ANSWERS[name].tolerance
        with contextlib.closing(CpuBackend(traced, COUNT, 2, "f32", COUNT, 1)) as backend:
            backend.read_text(backend.open(), PROMPT)
            oracle.check_pieces(backend, 0, PROMPT[::-1], wanted, 3 * LIMIT)  # scores are not scaled, and large


@pytest.mark.parametrize("name, indexers", [("deepseek32", 4), ("glm-dsa-picks", 2), ("glm5-next-picks", 1)])
def test_positions_are_picked_where_the_context_is_longer_than_what_is_picked(tmp_path, name, indexers):
    with gguf.open(CASES[name].write(tmp_path / "m.gguf")) as file:
        picked = file.get(f"{CASES[name].arch}.attention.indexer.top_k", int)
        counts = [[op.kind for op in plan.trace(file, n_ctx).ops].count("choose") for n_ctx in (picked, picked + 1)]
    assert counts == [0, indexers]


def test_limits_that_silu_passes_below_zero_are_refused(tmp_path):
    case = CASES["bailingmoe3-limits"]
    case = dataclasses.replace(case, keys=case.keys | {"swiglu_clamp_exp": [0.0, 0.0, 0.27, 0.5]})
    with gguf.open(case.write(tmp_path / "m.gguf")) as file:
        with pytest.raises(UnsupportedError, match="bailingmoe3: activations are limited to 0.27"):
            plan.trace(file, COUNT)


@pytest.mark.parametrize("name", CASES | ENCODERS | ANSWERS)
def test_numbers_that_contradict_each_other_end_in_one_line(tmp_path, name, recwarn):
    oracle.check_contradictions((CASES | ENCODERS | ANSWERS)[name].write(tmp_path / "m.gguf"))
