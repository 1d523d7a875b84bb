"""Every class against transformers: a folder that runs gives the logits that Hugging Face's library gave for it."""

import math
import warnings

import numpy as np
import pytest

import edgeinfer
from edgeinfer import files, plan
from edgeinfer.backend import Chunk
from edgeinfer.formats import gguf
from edgeinfer.huggingface.convert import convert
from edgeinfer.models import huggingface
from edgeinfer.reference import ReferenceBackend
from tests.huggingface import golden

TOLERANCE = 1e-3  # of the deviation of the logits: some activations and epsilons are GGUF's, and not the folders'


def logits(path, backend="reference"):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with edgeinfer.LLM(path, n_ctx=32, backend=backend) as llm:
            return llm.logits(golden.IDS)


@pytest.mark.parametrize("name", golden.names())
def test_a_folder_gives_the_logits_of_transformers(name, tmp_path):
    config, shapes, expected = golden.load(name)
    assert expected.shape == (len(golden.IDS), golden.VOCAB) and expected.std() > 0.05
    found = logits(golden.write_folder(tmp_path / name, config, shapes))[:, -golden.VOCAB :]
    assert np.abs(found - expected).max() < TOLERANCE * expected.std()


@pytest.mark.parametrize("name", golden.encoders())
def test_an_encoder_s_folder_gives_the_rows_and_the_score_of_transformers(name, tmp_path):
    config, shapes, rows = golden.load(name)
    assert rows.std() > 0.05
    expected = {"mean": rows.mean(0), "cls": rows[0], "last": rows[-1]}
    if (score := golden.score(name)) is not None:
        assert abs(score) > 0.05
        expected["rank"] = 1 / (1 + math.exp(-score)) if "qwen3" in name else score
    with files.open(golden.write_folder(tmp_path / "model", config, shapes)) as file:
        for pooling, wanted in expected.items():
            assert np.abs(pooled(file, pooling) - wanted).max() < TOLERANCE * rows.std()
        assert plan.stated_pooling(file, causal=False) == ("mean" if score is None else "rank")


@pytest.mark.parametrize("name", golden.answers())
def test_a_folder_that_answers_texts_gives_the_logits_of_transformers(name, tmp_path):
    config, shapes, expected = golden.load(name)
    assert expected.shape == (len(golden.IDS), golden.VOCAB) and expected.std() > 0.05
    with files.open(golden.write_folder(tmp_path / "model", config, shapes)) as file:
        backend, found = ReferenceBackend(plan.trace(file, 32), 32, 32, 1), np.empty_like(expected)
        backend.read_text(seq := backend.open(), golden.IDS)
        backend.step([Chunk(seq, golden.IDS[::-1], len(found))], found)
    assert np.abs(found - expected).max() < TOLERANCE * expected.std()


def pooled(file, pooling):
    traced = plan.trace(file, 32, pooling)
    backend, out = ReferenceBackend(traced, 32, 32, 1), np.empty((1, traced.width), np.float32)
    backend.step([Chunk(backend.open(), golden.IDS, 1)], out)
    return out[0]


@pytest.mark.parametrize("name", [*golden.names(), *golden.encoders(), *golden.answers()])
def test_what_is_converted_is_what_ran(name, tmp_path):
    config, shapes, _ = golden.load(name)
    folder = golden.write_folder(tmp_path / "model", config, shapes)
    convert(folder, tmp_path / "out.gguf")
    with files.open(folder) as one, gguf.open(tmp_path / "out.gguf") as other:
        assert [(key, str(value)) for key, value in one.metadata.items()] == [
            (key, str(value)) for key, value in other.metadata.items()
        ]
        assert list(one.tensors) == list(other.tensors)
        assert one.size == other.size
        for name, tensor in one.tensors.items():
            assert np.array_equal(tensor.data, other.tensors[name].data)
            assert tensor.type == other.tensors[name].type
        plan.trace(other)


def test_every_class_has_a_golden_case():
    names = [*golden.names(), *golden.encoders(), *golden.answers()]
    stated = {golden.load(name)[0]["architectures"][0] for name in names}
    twins = {"JinaBertModel", "JinaBertForMaskedLM"}  # of which transformers has none: in test_twins.py
    assert stated == set(huggingface.classes()) - twins


def test_golden_files_would_show_a_wrong_tensor(tmp_path):
    """Two rows of one matrix changed places: the logits are others by far more than the tolerance."""
    config, shapes, expected = golden.load("llama")
    golden.write_folder(tmp_path, config, shapes)
    tensors = {name: golden.weights(name, shape) for name, shape in shapes.items()}
    q = tensors["model.layers.0.self_attn.q_proj.weight"]
    q[[0, 1]] = q[[1, 0]]
    golden.write_safetensors(tmp_path / "model.safetensors", tensors)
    assert np.abs(logits(tmp_path) - expected).max() > 3 * TOLERANCE * expected.std()


def test_the_cpu_backend_runs_a_folder(tmp_path):
    """Also one whose tensors lie at odd places."""
    config, shapes, expected = golden.load("qwen2")
    golden.write_folder(tmp_path, config, shapes)
    raw = (tmp_path / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = raw[8 : 8 + length] + b" " * (3 - length % 2)
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + raw[8 + length :])
    found = logits(tmp_path, "cpu")
    assert np.abs(found - expected).max() < 0.1 * expected.std()
