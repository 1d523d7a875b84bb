"""Every class against transformers: a folder that runs gives the logits that Hugging Face's library gave for it."""

import warnings

import numpy as np
import pytest

import edgeinfer
from edgeinfer import files, plan
from edgeinfer.formats import gguf
from edgeinfer.huggingface.convert import convert
from edgeinfer.models import huggingface
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
    found = logits(golden.write_folder(tmp_path / name, config, shapes))
    assert np.abs(found - expected).max() < TOLERANCE * expected.std()


@pytest.mark.parametrize("name", golden.names())
def test_what_is_converted_is_what_ran(name, tmp_path):
    config, shapes, _ = golden.load(name)
    folder = golden.write_folder(tmp_path / name, config, shapes)
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
    stated = {golden.load(name)[0]["architectures"][0] for name in golden.names()}
    assert stated == set(huggingface.classes())


def test_golden_files_would_show_a_wrong_tensor(tmp_path):
    """Two rows of one matrix changed places: the logits are others by far more than the tolerance."""
    config, shapes, expected = golden.load("llama")
    golden.write_folder(tmp_path, config, shapes)
    tensors = {name: golden.weights(name, shape) for name, shape in shapes.items()}
    q = tensors["model.layers.0.self_attn.q_proj.weight"]
    q[[0, 1]] = q[[1, 0]]
    golden.write_safetensors(tmp_path / "model.safetensors", tensors)
    assert np.abs(logits(tmp_path) - expected).max() > 3 * TOLERANCE * expected.std()


def test_the_cpu_backend_runs_a_folder(tmp_path, home, monkeypatch):
    """Also one whose tensors lie at odd places."""
    monkeypatch.setenv("EDGEINFER_HOME", str(home))
    config, shapes, expected = golden.load("qwen2")
    golden.write_folder(tmp_path, config, shapes)
    raw = (tmp_path / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = raw[8 : 8 + length] + b" " * (3 - length % 2)
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + raw[8 + length :])
    found = logits(tmp_path, "cpu")
    assert np.abs(found - expected).max() < 0.1 * expected.std()
