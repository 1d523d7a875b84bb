"""Encoders against other implementations, whose numbers `golden_encoders.py` has kept; on both backends."""

import json
import pathlib

import numpy as np
import pytest

import edgeinfer
from edgeinfer.embedding import encode_pairs
from edgeinfer.formats import gguf
from tests.models.encoders import CASES, DOCUMENTS, QUERY, TEXTS

GOLDEN = json.loads(pathlib.Path(__file__).with_name("encoders.json").read_text())
LIMIT = 6e-6  # of the largest number: as far as float32 sums in another order go, and six digits are kept


@pytest.fixture(params=["reference", "cpu"])
def load(request):
    return lambda path, **options: edgeinfer.LLM(path, backend=request.param, kv_type="f32", n_threads=2, **options)


def near(got, want, limit=LIMIT):
    return np.abs(got - np.array(want)).max() <= limit * np.abs(want).max()


def test_every_case_has_its_golden_numbers():
    assert GOLDEN.keys() == CASES.keys() and {len(numbers) for numbers in GOLDEN.values()} == {2, 3}


@pytest.mark.parametrize("name", CASES)
def test_embeddings_and_scores(load, tmp_path, name):
    with load(CASES[name].write(tmp_path / "m.gguf")) as llm:
        for pooling in GOLDEN[name].keys() - {"scores"}:
            assert near(llm.embed(TEXTS, pooling, normalize=False), GOLDEN[name][pooling])
        if CASES[name].pairs:
            ranked = llm.rerank(QUERY, DOCUMENTS)
            scores = [found.score for found in sorted(ranked, key=lambda found: found.index)]
            assert near(scores, GOLDEN[name]["scores"], 2 * LIMIT)
            assert ranked == sorted(ranked, key=lambda found: -found.score)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.pairs])
def test_pairs_have_the_tokens_that_tokenizers_of_their_kind_put_around_them(tmp_path, name):
    with gguf.open(CASES[name].write(tmp_path / "m.gguf")) as file:
        assert encode_pairs(edgeinfer.Tokenizer.from_gguf(file), file, QUERY, DOCUMENTS) == CASES[name].pairs


@pytest.mark.parametrize("name", ["bert", "modern-bert", "gemma-embedding", "qwen3"])
def test_quantised_weights_are_near_the_exact_ones(load, tmp_path, name):
    with load(CASES[name].write(tmp_path / "m.gguf", "Q8_0")) as llm:
        rows = llm.embed(TEXTS, "mean")
    want = np.array(GOLDEN[name]["mean"])
    assert ((rows * want).sum(axis=1) / np.linalg.norm(want, axis=1)).min() > 0.998


@pytest.mark.parametrize("name", ["bert", "qwen3"])
def test_a_model_s_own_pooling_is_what_its_file_says(load, tmp_path, name):
    for number, pooling in ((1, "mean"), (2, "cls"), (3, "last"), (0, "last" if name == "qwen3" else "mean")):
        with load(CASES[name].write(tmp_path / "m.gguf", pooling_type=number)) as llm:
            assert (llm.embed(TEXTS) == llm.embed(TEXTS, pooling)).all()
