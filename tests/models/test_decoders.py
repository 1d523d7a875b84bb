"""Architectures of which the kit has no model, against llama.cpp, whose numbers `golden_decoders.py` has kept; on both
backends, in one step and in pieces."""

import contextlib
import json
import pathlib

import numpy as np
import pytest

from edgeinfer import plan
from edgeinfer.cpu import CpuBackend
from edgeinfer.formats import gguf
from edgeinfer.reference import ReferenceBackend
from tests.models import oracle
from tests.models.decoders import CASES, KEPT, PROMPT

GOLDEN = json.loads(pathlib.Path(__file__).with_name("decoders.json").read_text())
LIMIT = 1e-4  # of a logit: how far apart sums in another order are here
COUNT = len(PROMPT)


def test_every_case_has_its_golden_numbers():
    assert GOLDEN.keys() == CASES.keys() and {len(numbers) for numbers in GOLDEN.values()} == {KEPT}


@pytest.mark.parametrize("name", CASES)
def test_logits_are_llama_cpps(tmp_path, name, home, monkeypatch):
    monkeypatch.setenv("EDGEINFER_HOME", str(home))
    with gguf.open(CASES[name].write(tmp_path / "m.gguf")) as file:
        traced = plan.trace(file, COUNT)
        reference = ReferenceBackend(traced, COUNT, COUNT, 1)
        wanted = oracle.run(reference, reference.open(), PROMPT, [COUNT])
        assert np.abs(wanted[-1, :KEPT] - GOLDEN[name]).max() < LIMIT
        with contextlib.closing(CpuBackend(traced, COUNT, 2, "f32", COUNT, 1)) as backend:
            oracle.check_pieces(backend, backend.open(), PROMPT, wanted, LIMIT)
