"""Every architecture against llama.cpp, on either backend, and against numbers that cannot be: the kit's models."""

import json
import pathlib

import pytest

from edgeinfer import models, plan
from edgeinfer.errors import EdgeInferError
from edgeinfer.formats import gguf
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
def test_the_cpu_backend_gives_the_references_logits(shared, name, home, monkeypatch):
    monkeypatch.setenv("EDGEINFER_HOME", str(home))
    oracle.check_cpu(shared, name)


@pytest.mark.parametrize("name", {arch: name for name, arch in cases().items()}.values())
def test_numbers_that_contradict_each_other_end_in_one_line(shared, name):
    path = shared / "kit" / "arch" / f"{name}.gguf"
    with gguf.open(path) as file:
        prefix = str(file.get("general.architecture", str))
        numbers = [key for key, value in file.metadata.items() if key.startswith(prefix) and type(value) is int]
    assert f"{prefix}.block_count" in numbers
    for key in numbers:
        for value in (0, 3, 2**24):
            with gguf.open(path, override={key: value}) as file:
                try:
                    plan.trace(file, 64)
                except EdgeInferError as error:
                    assert len(str(error).splitlines()) == 1
