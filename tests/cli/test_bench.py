"""bench: the tests asked for, each beside the machine's limit; how fast it is is no test."""

import json

import pytest

from edgeinfer.cli.bench import products, weight_bytes
from edgeinfer.formats import gguf
from edgeinfer.plan import trace
from tests import tiny


@pytest.fixture
def model(tmp_path):
    tiny.write(tmp_path / "tiny.gguf", arch="llama", types="Q8_0")
    return tmp_path / "tiny.gguf"


def test_a_row_for_every_test_and_number_of_threads(edgeinfer, model):
    rows = json.loads(edgeinfer("bench", model, "-p", "8,16", "-n", "4", "-t", "1,2", "-r", "2", "--json").stdout)
    tests = [(row["n_threads"], row["n_prompt"], row["n_gen"]) for row in rows]
    assert tests == [(t, p, n) for t in (1, 2) for p, n in ((8, 0), (16, 0), (0, 4))]
    for row in rows:
        assert len(row["samples_ts"]) == 2 and min(row["samples_ts"]) > 0
        assert row["limit"] > 0 and row["share_of_limit"] > 0


def test_a_table(edgeinfer, model):
    lines = edgeinfer("bench", model, "-p", "8", "-n", "4", "-d", "16", "-t", "1", "-r", "1").stdout.splitlines()
    assert [line.split("|")[4].strip(" -") for line in lines] == ["test", "", "pp8 @ d16", "tg4 @ d16"]


def test_numbers_that_are_none(edgeinfer, model):
    assert "'many'" in edgeinfer.fails(2, "bench", model, "-p", "many")


def test_work_is_counted_from_the_plan(model):
    plan = trace(gguf.open(model))
    matrices = [plan.tensors[op.weights[0]] for op in plan.ops if op.kind == "linear"]
    assert weight_bytes(plan) == sum(m.nbytes for m in matrices)
    output = matrices[-1].shape[0] * matrices[-1].shape[1]
    rest = sum(m.shape[0] * m.shape[1] for m in matrices) - output
    assert products(plan, 10) == rest + output / 10
