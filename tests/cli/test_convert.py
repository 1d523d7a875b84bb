"""Folders on the command line: converted, shown, tokenised and run."""

import json
import signal
import time

import pytest

from edgeinfer.formats import gguf
from tests.huggingface import golden


@pytest.fixture
def folder(tmp_path):
    config, shapes, _ = golden.load("qwen2")
    return golden.write_folder(tmp_path / "model", config, shapes)


def test_a_folder_is_converted(edgeinfer, folder, tmp_path):
    out = tmp_path / "out.gguf"
    done = edgeinfer("convert", folder, out, "--type", "bf16")
    assert (done.returncode, done.stdout) == (0, "")
    assert "wrote" in done.stderr and len(done.stderr.splitlines()) == 1
    with gguf.open(out) as file:
        assert file.get("general.architecture", str) == "qwen2"
        assert file.tensors["token_embd.weight"].type.name == "BF16"


def test_a_folder_is_a_model_to_the_other_commands(edgeinfer, folder):
    shown = json.loads(edgeinfer("show", folder, "--json").stdout)
    assert shown["architecture"] == "qwen2"
    assert json.loads(edgeinfer("tokenize", folder, "AB", "--json").stdout)["ids"] == [1, 2]
    done = edgeinfer("run", folder, "-p", "AB", "-n", "3", "--raw", "--backend", "reference")
    assert done.returncode == 0, done.stderr


def test_mistakes_end_in_one_line(edgeinfer, folder, tmp_path):
    for arguments, code, words in (
        ((tmp_path / "no", tmp_path / "out.gguf"), 1, "there is no such folder"),
        ((folder / "config.json", tmp_path / "out.gguf"), 1, "is a file, not a model folder"),
        ((folder, tmp_path), 2, ""),
        ((folder, tmp_path / "out.gguf", "--type", "q4_0"), 2, "q4_0"),
    ):
        done = edgeinfer("convert", *arguments)
        assert done.returncode == code and done.stdout == ""
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("edgeinfer: ") and words in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(edgeinfer, folder, tmp_path, number):
    config, shapes, _ = golden.load("qwen2")
    wide = {name: tuple(60 * size for size in shape) for name, shape in shapes.items()}
    config |= {"vocab_size": 60 * 96, "hidden_size": 60 * 32, "intermediate_size": 60 * 48, "head_dim": 60 * 8}
    golden.write_folder(folder, config, wide)
    out = tmp_path / "out"
    out.mkdir()
    with edgeinfer.start("convert", folder, out / "out.gguf", "--type", "f16") as process:
        while process.poll() is None and not list(out.iterdir()):
            time.sleep(0.001)
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == 0 or not list(out.iterdir())
    assert [path.name for path in out.iterdir()] in ([], ["out.gguf"])
