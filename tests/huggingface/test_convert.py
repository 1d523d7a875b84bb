"""Conversion: whole or not at all, in the types asked for."""

import os

import numpy as np
import pytest

from edgeinfer import files
from edgeinfer.errors import BackendError, EdgeInferError, FormatError, RequestError
from edgeinfer.formats import gguf
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.huggingface import convert as module
from edgeinfer.huggingface.convert import convert
from tests.huggingface import golden


@pytest.fixture
def folder(tmp_path):
    config, shapes, _ = golden.load("llama")
    return golden.write_folder(tmp_path / "model", config, shapes)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_matrices_become_the_type_asked_for_and_vectors_float32(folder, tmp_path, kind):
    convert(folder, tmp_path / "out.gguf", kind)
    with gguf.open(tmp_path / "out.gguf") as file, files.open(folder) as exact:
        types = {tensor.type for tensor in file.tensors.values() if len(tensor.shape) > 1}
        assert types == {GgmlType[kind.upper()]}
        assert {tensor.type for tensor in file.tensors.values() if len(tensor.shape) == 1} == {GgmlType.F32}
        steps = {"f32": 0, "f16": 2**-11, "bf16": 2**-8}[kind]
        for name, tensor in file.tensors.items():
            expected = exact.tensors[name].float32()
            assert np.abs(tensor.float32() - expected).max() <= steps * np.abs(expected).max()


def test_numbers_of_sixteen_bits_stay_as_they_are(folder, tmp_path):
    _, shapes, _ = golden.load("llama")
    tensors = {name: golden.weights(name, shape).view("<u4") >> 16 for name, shape in shapes.items()}
    tensors = {name: x.astype("<u2") for name, x in tensors.items()}
    golden.write_safetensors(folder / "model.safetensors", tensors, "BF16")
    convert(folder, tmp_path / "out.gguf")
    with gguf.open(tmp_path / "out.gguf") as file:
        down, q = file.tensors["blk.0.ffn_down.weight"], file.tensors["blk.0.attn_q.weight"]
        assert {down.type, q.type} == {GgmlType.BF16}
        assert down.data.tobytes() == tensors["model.layers.0.mlp.down_proj.weight"].tobytes()
        source = tensors["model.layers.0.self_attn.q_proj.weight"]
        assert q.data.tobytes() == source.reshape(4, 2, 4, 32).swapaxes(1, 2).tobytes()
        norm = file.tensors["output_norm.weight"]
        assert norm.type == GgmlType.F32
        assert np.array_equal(norm.float32().view("<u4") >> 16, tensors["model.norm.weight"])


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_numbers_of_sixteen_bits_become_the_type_asked_for(folder, tmp_path, kind):
    _, shapes, _ = golden.load("llama")
    tensors = {name: golden.weights(name, shape).astype("<f2") for name, shape in shapes.items()}
    golden.write_safetensors(folder / "model.safetensors", tensors, "F16")
    convert(folder, tmp_path / "out.gguf", kind)
    with gguf.open(tmp_path / "out.gguf") as file:
        down = file.tensors["blk.0.ffn_down.weight"]
        assert down.type == GgmlType[kind.upper()]
        expected = tensors["model.layers.0.mlp.down_proj.weight"].astype(np.float32)
        assert np.abs(down.float32() - expected).max() <= (kind == "bf16") * 2**-8 * np.abs(expected).max()


def test_an_error_or_interrupt_leaves_what_was_there(folder, tmp_path):
    out = tmp_path / "out.gguf"
    out.write_bytes(b"before")

    def stop(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(folder, out, progress=stop)
    assert out.read_bytes() == b"before"
    assert sorted(os.listdir(tmp_path)) == ["model", "out.gguf"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a file that is none")
def test_devices_and_the_folders_own_files_stay(folder, tmp_path):
    os.mkfifo(tmp_path / "device")
    before = (folder / "model.safetensors").read_bytes()
    for out in (tmp_path / "device", folder / "model.safetensors", folder / "config.json"):
        with pytest.raises(RequestError, match="is no file that could be replaced"):
            convert(folder, out)
    assert (tmp_path / "device").is_fifo() and (folder / "model.safetensors").read_bytes() == before
    for _ in range(2):
        convert(folder, folder / "out.gguf")


def test_a_full_disk_is_said_before_and_while_it_is_written(folder, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "_write", full)
        with pytest.raises(BackendError, match="No space left on device"):
            convert(folder, tmp_path / "out.gguf")
    monkeypatch.setattr(
        module.shutil, "disk_usage", lambda path: os.terminal_size((1, 1)) and type("U", (), {"free": 9})
    )
    with pytest.raises(BackendError, match="are free"):
        convert(folder, tmp_path / "out.gguf")
    assert os.listdir(tmp_path) == ["model"]


def test_mistakes_in_the_arguments(folder, tmp_path):
    for out, kind in ((tmp_path / "x.gguf", "q8_0"), (tmp_path, None), (tmp_path / "no" / "x.gguf", None)):
        with pytest.raises(RequestError):
            convert(folder, out, kind)
    with pytest.raises(RequestError, match="an empty name: must name a file"):
        convert(folder, "")
    assert os.listdir(tmp_path) == ["model"]


def test_what_could_not_run_is_not_written(folder, tmp_path):
    _, shapes, _ = golden.load("llama")
    del shapes["model.layers.1.mlp.up_proj.weight"]
    golden.write_safetensors(folder / "model.safetensors", {n: golden.weights(n, s) for n, s in shapes.items()})
    with pytest.raises(EdgeInferError, match="blk.1.ffn_up"):
        convert(folder, tmp_path / "out.gguf")
    assert os.listdir(tmp_path) == ["model"]


def test_a_folder_that_changes_meanwhile_becomes_no_file(folder, tmp_path):
    def change(*_):
        with open(folder / "model.safetensors", "ab") as weights:
            weights.write(b"x")

    with pytest.raises(FormatError, match=r"model\.safetensors: the file was changed"):
        convert(folder, tmp_path / "out.gguf", progress=change)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
@pytest.mark.parametrize("there", [True, False])
def test_what_a_link_points_to_is_written(folder, tmp_path, there):
    (tmp_path / "disk").mkdir()
    if there:
        (tmp_path / "disk" / "real.gguf").write_text("old")
    (tmp_path / "link.gguf").symlink_to("disk/real.gguf")
    convert(folder, tmp_path / "link.gguf")
    assert (tmp_path / "link.gguf").is_symlink()
    assert [entry.name for entry in (tmp_path / "disk").iterdir()] == ["real.gguf"]
    with gguf.open(tmp_path / "disk" / "real.gguf") as file:
        assert file.tensors


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_to_a_file_of_the_folder_is_refused(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder / "model.safetensors")
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(RequestError, match="no file that could be replaced"):
        convert(folder, tmp_path / "link")
    assert (folder / "model.safetensors").read_bytes() == before
