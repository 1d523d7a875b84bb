"""Folders with something missing or wrong: one line that names the file and the cause."""

import json
import os
import pickle

import numpy as np
import pytest

from edgeinfer import files
from edgeinfer.errors import EdgeInferError, FormatError, UnsupportedError
from tests.huggingface import golden

INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path):
    config, shapes, _ = golden.load("qwen2")
    return golden.write_folder(tmp_path / "model", config, shapes)


def refused(folder, *words, kind=EdgeInferError):
    with pytest.raises(kind) as error:
        files.open(folder).close()
    text = str(error.value)
    assert text.startswith(f"{folder}: ") and "\n" not in text
    for word in words:
        assert word in text, text


def edit(folder, name, **changes):
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def shard(folder, **places):
    """Splits the weights into two files; `places` overrides where the index says tensors are."""
    _, shapes, _ = golden.load("qwen2")
    (folder / "model.safetensors").unlink()
    names = list(shapes)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, own in parts.items():
        golden.write_safetensors(folder / file, {name: golden.weights(name, shapes[name]) for name in own})
    weight_map = {name: file for file, own in parts.items() for name in own} | places
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_shards_are_one_model(folder):
    with files.open(folder) as whole:
        tensors = {name: tensor.data.copy() for name, tensor in whole.tensors.items()}
    shard(folder)
    with files.open(folder) as parts:
        assert parts.tensors.keys() == tensors.keys()
        assert all(np.array_equal(parts.tensors[name].data, data) for name, data in tensors.items())


def test_a_file_that_is_written_to_is_named(folder):
    shard(folder)
    with files.open(folder) as model:
        model.check()
        with open(folder / "model-00002-of-00002.safetensors", "ab") as shard_file:
            shard_file.write(b"x")
        with pytest.raises(FormatError, match=r"model: model-00002-of-00002\.safetensors: the file was changed"):
            model.check()


def test_a_missing_shard_is_named(folder):
    shard(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()
    refused(folder, INDEX, "model-00002-of-00002.safetensors", kind=FormatError)


@pytest.mark.parametrize(
    "name", ["../other.safetensors", "/etc/passwd", "sub/x.safetensors", "..\\x.safetensors", "x.bin"]
)
def test_an_index_cannot_lead_out_of_the_folder(folder, name):
    shard(folder, **{"model.norm.weight": name})
    refused(folder, INDEX, "no safetensors file of this folder", kind=FormatError)


def test_an_index_that_is_wrong_about_a_tensor(folder):
    shard(
        folder, **{"model.norm.weight": "model-00001-of-00002.safetensors", "more": "model-00001-of-00002.safetensors"}
    )
    refused(folder, "model-00001-of-00002.safetensors has no tensor", kind=FormatError)


@pytest.mark.parametrize(
    "index", ['{"weight_map": {}}', '{"weight_map": {"a": 1}}', "{}", "[]", "{", '{"a": 1, "a": 2}']
)
def test_a_malformed_index(folder, index):
    (folder / INDEX).write_text(index)
    refused(folder, INDEX, kind=FormatError)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\ufeff{}", "[" * 100_000, '{"a": ' + "9" * 10_000 + "}"])
def test_a_malformed_config(folder, text):
    (folder / "config.json").write_text(text)
    refused(folder, "config.json", kind=FormatError)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json", "chat_template.jinja"])
def test_a_pipe_is_refused_without_waiting(folder, name):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    refused(folder, f"{name} is not a regular file", kind=FormatError)


def test_no_config(folder):
    (folder / "config.json").unlink()
    refused(folder, "config.json", kind=FormatError)


def test_no_weights(folder):
    (folder / "model.safetensors").unlink()
    refused(folder, "model.safetensors", kind=FormatError)
    (folder / "m.gguf").touch()
    refused(folder, "m.gguf", kind=FormatError)


def test_pickled_weights_are_not_read(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({}))
    refused(folder, "pytorch_model.bin", "pickled", "safetensors", kind=UnsupportedError)


def test_no_tokenizer(folder):
    (folder / "tokenizer.json").unlink()
    refused(folder, "tokenizer.json nor tokenizer.model", kind=FormatError)


def test_a_class_nobody_knows_is_named_with_the_closest(folder):
    edit(folder, "config.json", architectures=["Qwen2ForCausalLanguage"])
    refused(folder, "Qwen2ForCausalLanguage", "Qwen2ForCausalLM", kind=UnsupportedError)
    edit(folder, "config.json", architectures=[])
    refused(folder, "architectures", kind=FormatError)


def test_quantised_weights_are_refused(folder):
    edit(folder, "config.json", quantization_config={"quant_method": "awq"})
    refused(folder, "awq", kind=UnsupportedError)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"hidden_size": "32"}, "hidden_size"),
        ({"hidden_size": -1}, "hidden_size"),
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"rms_norm_eps": True}, "rms_norm_eps"),
        ({"rope_parameters": 3}, "rope_parameters"),
        ({"rope_parameters": {"rope_type": "new", "rope_theta": 1e4}}, "rope_type"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}}, "factor"),
        ({"hidden_act": "relu"}, "activation"),
        ({"rms_norm_eps": 1e39}, "no file holds"),
        ({"partial_rotary_factor": 1e30}, "no file holds"),
    ],
)
def test_numbers_that_are_none(folder, changes, word):
    edit(folder, "config.json", **changes)
    refused(folder, word)


def test_a_number_for_each_layer_that_is_none(tmp_path):
    config, shapes, _ = golden.load("hunyuan_moe")
    folder = golden.write_folder(tmp_path / "m", config | {"moe_topk": [2, "x"]}, shapes)
    refused(folder, "moe_topk", "an integer wanted")


@pytest.mark.parametrize("number", [3, [4], {}, None])
def test_pictures_that_have_other_ids(tmp_path, number):
    config, shapes, _ = golden.load("chameleon")
    config["vocabulary_map"]["IMGIMG4Z"] = number
    folder = golden.write_folder(tmp_path / "model", config, shapes)
    refused(folder, "tokens of pictures have other ids than 4 to 8195", kind=UnsupportedError)


def test_a_base_that_cannot_be_raised(tmp_path):
    config, shapes, _ = golden.load("hunyuan_dense")
    config["rope_parameters"]["alpha"] = -5
    refused(golden.write_folder(tmp_path / "m", config, shapes), "alpha is -5")


def test_a_window_that_gguf_has_no_place_for_is_a_warning(folder):
    edit(folder, "config.json", use_sliding_window=True, sliding_window=16)
    with pytest.warns(UserWarning, match="sliding window of 16"):
        files.open(folder).close()


def test_a_tensor_without_a_use_is_named(folder):
    _, shapes, _ = golden.load("qwen2")
    shapes |= {"model.layers.0.self_attn.extra.weight": (4, 4)}
    golden.write_safetensors(folder / "model.safetensors", {n: golden.weights(n, s) for n, s in shapes.items()})
    refused(folder, "self_attn.extra.weight", kind=UnsupportedError)


@pytest.mark.parametrize("shape", [(), (0, 4), (96,), (1, 1, 1, 1, 96)])
def test_an_embedding_of_a_wrong_shape(folder, shape):
    _, shapes, _ = golden.load("qwen2")
    shapes["model.embed_tokens.weight"] = shape
    golden.write_safetensors(folder / "model.safetensors", {n: golden.weights(n, s) for n, s in shapes.items()})
    refused(folder)


def test_a_dtype_that_cannot_be_read(folder):
    golden.write_safetensors(
        folder / "model.safetensors", {"model.embed_tokens.weight": np.zeros((96, 32), "u1")}, "U8"
    )
    refused(folder, "model.embed_tokens.weight", "U8", kind=UnsupportedError)


@pytest.mark.parametrize(("part", "shape"), [("scales", (4, 96, 1)), ("scales", (4, 128)), ("blocks", (4, 128, 2, 8))])
def test_blocks_that_do_not_fit_their_scales(tmp_path, part, shape):
    config, shapes, _ = golden.load("gpt_oss-mxfp4")
    name = f"model.layers.0.mlp.experts.gate_up_proj_{part}"
    assert name in shapes and shapes[name] != shape
    refused(golden.write_folder(tmp_path / "m", config, shapes | {name: shape}), "do not fit", kind=FormatError)
