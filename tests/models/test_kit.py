"""Every architecture against llama.cpp: all models of the kit whose architecture there is a file for."""

import json
import pathlib

import pytest

from edgeinfer import models
from tests.models import oracle

INDEX = pathlib.Path(__file__).resolve().parents[3] / "shared" / "kit" / "arch" / "index.json"


def cases() -> list[str]:
    listed = json.loads(INDEX.read_text()) if INDEX.is_file() else []
    known = set(models.names())
    return [case["name"] for case in listed if case["arch"].replace("-", "_") in known]


@pytest.mark.parametrize("name", cases())
def test_logits_and_greedy_text_are_llama_cpps(shared, name):
    oracle.check(shared, name)
