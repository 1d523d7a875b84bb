"""What users complain of when a model does not load: each has one clear reason, and what is sound loads.

Held elsewhere: truncated files, offsets, dimensions and types in formats/test_gguf_tensors.py; pointers, web pages and
older formats in formats/test_magic.py; versions and byte order in formats/test_gguf.py; shards in
formats/test_gguf_shards.py and test_llm.py, as are alignment, leaks, `close` and noise at exit.

By choice a tensor that an architecture has no use for is refused and not passed over: what it would add, a bias or a
norm, would be missing from every answer."""

import os
import subprocess
import sys

import pytest

from edgeinfer import LLM
from edgeinfer.errors import EdgeInferError, FormatError, UnsupportedError
from edgeinfer.formats import gguf
from edgeinfer.plan import trace
from edgeinfer.tokenizer import Tokenizer
from tests import tiny
from tests.fuzz.gguf_parts import STRING, Pair, parse


def without(name):
    return lambda keys, tensors: tensors.pop(name)


def with_key(key, value):
    return lambda keys, tensors: keys.update({key: value})


def model(tmp_path, edit=None, **options):
    return tiny.write(tmp_path / "m.gguf", edit=edit, **options)


FAULTS = {
    "no output norm": (without("output_norm.weight"), FormatError, "no tensor output_norm.weight"),
    "no embedding": (without("token_embd.weight"), FormatError, "no tensor token_embd.weight"),
    "another architecture": (with_key("general.architecture", "zzzma"), UnsupportedError, "architecture 'zzzma'"),
    "another tokenizer": (with_key("tokenizer.ggml.model", "runes"), UnsupportedError, "tokenizer model 'runes'"),
    "no layers": (with_key("llama.block_count", 0), FormatError, "llama.block_count is 0"),
    "too many layers": (with_key("llama.block_count", 3), FormatError, "block_count is 3, but the file has"),
    "odd heads": (with_key("llama.attention.head_count", 3), FormatError, "llama.attention.head_count, 3,"),
    "no context": (lambda keys, tensors: keys.pop("llama.context_length"), FormatError, "'llama.context_length'"),
    "heads as text": (with_key("llama.attention.head_count", "4"), FormatError, "is str, int wanted"),
    "another width": (with_key("llama.embedding_length", 128), FormatError, "token_embd.weight is 300 x 64"),
    "another scaling": (with_key("llama.rope.scaling.type", "twisted"), UnsupportedError, "'twisted', known are"),
    "types of other tokens": (with_key("tokenizer.ggml.token_type", [1, 3]), FormatError, "2 values for 300 tokens"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_error_names_the_file_once_and_the_cause(tmp_path, fault):
    edit, kind, words = FAULTS[fault]
    path = model(tmp_path, edit)
    with pytest.raises(EdgeInferError) as caught:
        LLM(path, backend="reference")
    text = str(caught.value)
    assert caught.type is kind and words in text and text.startswith(f"{path}: ") and text.count(path.name) == 1
    assert "\n" not in text and len(text) < 400


def test_plan_and_tokenizer_name_the_file_by_themselves(tmp_path):
    path = model(tmp_path, with_key("tokenizer.ggml.model", "runes"))
    for load in (Tokenizer.from_gguf, lambda path: Tokenizer.from_gguf(gguf.open(path))):
        with pytest.raises(UnsupportedError) as caught:
            load(path)
        assert str(caught.value).startswith(f"{path}: tokenizer model")
    with gguf.open(model(tmp_path, without("output_norm.weight"))) as file, pytest.raises(FormatError) as caught:
        trace(file)
    assert str(caught.value).startswith(f"{path}: the file has no tensor")


def test_an_unknown_architecture_is_told_what_there_is(tmp_path):
    with pytest.raises(UnsupportedError, match="'zzzma' is none of the .* that are supported.*llama"):
        LLM(model(tmp_path, with_key("general.architecture", "zzzma")))


@pytest.mark.parametrize("word", [b"name\n\x1b[31mred", b"x" * 100_000, b"\xff\xed\xa0\x80", "é\u200b".encode()])
@pytest.mark.parametrize("key", ["general.architecture", "tokenizer.ggml.model", "llama.rope.scaling.type"])
def test_texts_of_the_file_are_shown_short_and_harmless(tmp_path, key, word):
    path = model(tmp_path)
    parts = parse(path.read_bytes())
    parts.pairs = [pair for pair in parts.pairs if pair.key != key.encode()] + [Pair(key.encode(), STRING, word)]
    path.write_bytes(parts.write())
    with pytest.raises(EdgeInferError) as caught:
        LLM(path, backend="reference")
    assert str(caught.value).isprintable() and len(str(caught.value)) < 1000


def test_an_unknown_pre_tokenizer_is_a_short_and_harmless_warning(tmp_path):
    path = model(tmp_path, with_key("tokenizer.ggml.pre", "\x1b[31m" + "z" * 100_000))
    with pytest.warns(UserWarning, match="unknown pre-tokenizer") as told:
        Tokenizer.from_gguf(path)
    assert str(told[0].message).isprintable() and len(str(told[0].message)) < 300


def test_names_of_tensors_are_shown_short_and_harmless(tmp_path):
    def add(keys, tensors):
        tensors["odd\n\x1b[31m"] = tensors["output_norm.weight"]

    with pytest.raises(UnsupportedError, match="has no use for tensor odd") as caught:
        LLM(model(tmp_path, add), backend="reference")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("types", ["F32", "Q8_0"])
def test_an_embedding_is_the_output_layer_where_there_is_none(tmp_path, types):
    with LLM(model(tmp_path, types=types, tied=True), backend="reference") as llm:
        tied = llm.logits([5, 6, 7])

    def add_output(keys, tensors):
        tensors["output.weight"] = tensors["token_embd.weight"]

    with LLM(model(tmp_path, add_output, types=types, tied=True), backend="reference") as llm:
        assert (llm.logits([5, 6, 7]) == tied).all()


def test_types_are_those_of_the_tensors_whatever_the_file_is_called(tmp_path):
    path = tmp_path / "Tiny.Q4_K_M.gguf"
    types = {"attn_q": "Q5_0", "ffn_up": "Q8_0", "ffn_down": "F16", "": "Q4_1"}
    tiny.write(path, types=types, edit=with_key("general.file_type", 15))
    with gguf.open(path) as file, LLM(path, backend="reference") as llm:
        found = {tensor.type.name for tensor in file.tensors.values()}
        assert found == {*types.values(), "F32"} and llm.generate([1], max_tokens=2).ids


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads Linux's memory figures")
def test_weights_are_not_copied(tmp_path):
    """The file's pages are shared with the system; what is its own stays far below the weights in float32."""
    shape = {"layers": 2, "dim": 2048, "heads": 16, "kv_heads": 8, "key_dim": 128, "value_dim": 128, "ff_dim": 4096}
    path = model(tmp_path, types="Q4_0", **shape)
    code = f"""
import edgeinfer, pathlib
with edgeinfer.LLM({str(path)!r}, n_ctx=64) as llm:
    llm.generate([1, 2, 3], max_tokens=2, ignore_eos=True)
    print(int(pathlib.Path("/proc/self/status").read_text().partition("RssAnon:")[2].split()[0]) << 10)
"""
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) < 4 * 2 * 2048 * (2048 * 2 + 1024 * 2 + 3 * 4096) / 2
