"""`--override`: what values are read as, and that each command that takes it heeds it."""

import json

import pytest

from edgeinfer.cli.override import parsed
from edgeinfer.errors import RequestError
from tests import tiny


def test_values():
    texts = ["a=1", "b=-2.5", "c=true", "d=text", 'e="7"', "f=", "g=x=y", "h=1e3"]
    assert parsed(texts) == {"a": 1, "b": -2.5, "c": True, "d": "text", "e": "7", "f": "", "g": "x=y", "h": 1000.0}
    assert parsed(None) == {}


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_what_is_no_pair(text):
    with pytest.raises(RequestError, match=f"--override '{text}'; must be KEY=VALUE"):
        parsed([text])


def test_a_value_nested_too_deeply():
    with pytest.raises(RequestError, match="nested too deeply"):
        parsed(["a=" + "[" * 200_000])


def test_commands(edgeinfer, tmp_path):
    path = tiny.write(tmp_path / "m.gguf")
    given = ["--override", "llama.context_length=64", "--override", "tokenizer.ggml.add_bos_token=true"]
    assert json.loads(edgeinfer("show", path, "--json", *given).stdout)["context"] == 64
    plain, other = (
        json.loads(edgeinfer("tokenize", path, "the", "--json", *more).stdout)["ids"] for more in ([], given)
    )
    assert len(other) == len(plain) + 1
    (tmp_path / "text").write_text("the and the or the and is" * 40)
    done = edgeinfer("perplexity", path, tmp_path / "text", "--backend", "reference", "--ctx", "128", *given)
    assert done.returncode == 0 and "n_ctx 128 is lowered to the 64 tokens the model states" in done.stderr
    assert "override of 'llama.block_count' is 'x', int wanted" in edgeinfer.fails(
        2, "run", path, "go", "--override", "llama.block_count=x"
    )
