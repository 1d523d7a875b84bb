"""Every architecture against llama.cpp, on either backend, and against numbers that cannot be: the kit's models."""

import json
import pathlib

import pytest

from edgeinfer import models
from tests.models import oracle

INDEX = pathlib.Path(__file__).resolve().parents[3] / "shared" / "kit" / "arch" / "index.json"


def cases() -> dict[str, str]:
    """The architecture of each model."""
    listed = json.loads(INDEX.read_text()) if INDEX.is_file() else []
    known = set(models.names())
    return {case["name"]: case["arch"] for case in listed if case["arch"].replace("-", "_") in known}


@pytest.mark.parametrize("name", cases())
def test_logits_and_greedy_text_are_llama_cpps(shared, name):
    oracle.check(shared, name)


@pytest.mark.parametrize("name", cases())
def test_the_cpu_backend_gives_the_references_logits(shared, name):
    oracle.check_cpu(shared, name)


@pytest.mark.parametrize("name", {arch: name for name, arch in cases().items()}.values())
def test_numbers_that_contradict_each_other_end_in_one_line(shared, name):
    oracle.check_contradictions(shared / "kit" / "arch" / f"{name}.gguf")
