"""Vocabularies: what is refused, what is ignored, and which tokens end a generation."""

import json
import lzma
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.tokenizer import Tokenizer

Write = Callable[..., pathlib.Path]
GOOD: dict[str, Any] = {
    "model": "gpt2",
    "pre": "gpt-2",
    "tokens": ["a", "b", "ab"],
    "token_type": [1, 1, 1],
    "merges": ["a b"],
}


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name != key}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (without("model"), "tokenizer.ggml.model"),
        (without("tokens"), "tokenizer.ggml.tokens"),
        (without("merges"), "tokenizer.ggml.merges"),
        (GOOD | {"tokens": [1, 2, 3]}, "tokenizer.ggml.tokens"),
        (GOOD | {"token_type": "normal"}, "tokenizer.ggml.token_type"),
        (GOOD | {"token_type": [1, 1]}, "token_type has 2 values for 3 tokens"),
        (GOOD | {"tokens": ["a", "b", "x" * 70_000]}, "70000 bytes"),
        (GOOD | {"bos_token_id": "a"}, "tokenizer.ggml.bos_token_id"),
    ],
)
def test_malformed(write: Write, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        Tokenizer.from_gguf(write(**keys))


def test_unsupported_model_names_what_there_is(write: Write) -> None:
    with pytest.raises(UnsupportedError, match="'hybriddna'.*gpt2, llama, plamo2, rwkv, t5"):
        Tokenizer.from_gguf(write(**GOOD | {"model": "hybriddna"}))


@pytest.mark.parametrize("id", [-5, 3])
def test_ids_outside_the_vocabulary_are_ignored(write: Write, id: int) -> None:
    with pytest.warns(UserWarning, match=f"bos_token_id is {id}"):
        tokenizer = Tokenizer.from_gguf(write(**GOOD, bos_token_id=id, add_bos_token=True))
    assert tokenizer.bos_id is None
    assert tokenizer.encode("ab") == [2]


def test_types_may_be_missing(write: Write) -> None:
    assert Tokenizer.from_gguf(write(**without("token_type"))).encode("ab") == [2]


def test_ends_of_generation(bpe: Callable[..., Tokenizer]) -> None:
    special = [("<|im_end|>", 3), ("</s>", 1), ("<|other|>", 3), ("<fim_pad>", 1), ("<fim_prefix>", 4)]
    tokenizer = bpe(special=special, eos_token_id=258)
    assert tokenizer.eog_ids == {256, 257, 258, 259}
    assert [tokenizer.is_control(id) for id in range(256, 261)] == [True] * 5


def test_end_of_a_message_that_is_not_the_end_of_the_turn(bpe: Callable[..., Tokenizer]) -> None:
    assert bpe(special=[("<|end|>", 3), ("<|return|>", 3), ("<|call|>", 3)]).eog_ids == {257, 258}
    assert bpe(special=[("<|end|>", 3)]).eog_ids == {256}


@pytest.mark.parametrize(
    "name",
    ["baichuan", "deepseek-coder", "deepseek-llm", "falcon", "gpt-2", "gpt-neox", "llama-bpe", "llama-spm", "mpt"]
    + ["phi-3", "qwen2", "refact", "starcoder"],
)
def test_kit_vocabulary(shared: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    """Facts, ids of all strings in the four ways, and bytes of pieces and of random ids, as llama.cpp has them."""
    folder = shared / "kit/tokenizer"
    path = tmp_path / "vocabulary.gguf"
    path.write_bytes(lzma.decompress((folder / f"vocab/ggml-vocab-{name}.gguf.xz").read_bytes()))
    check(Tokenizer.from_gguf(path), folder, name)


@pytest.mark.parametrize(
    ("name", "file"),
    [("smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf"), ("gemma-3-270m", "gemma-3-270m-Q4_K_M.gguf")],
)
def test_kit_real_model(shared: pathlib.Path, real: Callable[[str], Tokenizer], name: str, file: str) -> None:
    check(real(file), shared / "kit/tokenizer", name)


def check(tokenizer: Tokenizer, folder: pathlib.Path, name: str) -> None:
    want = json.loads((folder / f"{name}.json").read_text())
    texts = {text["i"]: bytes.fromhex(text["hex"]) for text in json.loads((folder / "strings.json").read_text())}
    assert (tokenizer.n_vocab, tokenizer.bos_id, tokenizer.eos_id) == (want["n_tokens"], want["bos"], want["eos"])
    assert (tokenizer.add_bos, tokenizer.add_eos) == (want["add_bos"], want["add_eos"])
    assert sorted(tokenizer.eog_ids) == want["eog"]
    for case in want["strings"] + [case for case in want["invalid_utf8"] if "ff" in case]:
        raw = texts[case["i"]] if "i" in case else bytes.fromhex(case["hex"])
        for key, add_special, parse_special in (("ff", 0, 0), ("tf", 1, 0), ("ft", 0, 1), ("tt", 1, 1)):
            assert tokenizer.encode(raw, bool(add_special), bool(parse_special)) == case[key], (raw, key)
        assert tokenizer.decode(case["tt"], special=True).hex() == case["detok_tt"], raw
    for id, shown, hidden in want["pieces"]:
        assert tokenizer.token_bytes(id).hex() == shown, id
        assert (b"" if tokenizer.is_control(id) else tokenizer.token_bytes(id)).hex() == hidden, id
    for case in want["random_id_sequences"]:
        assert tokenizer.decode(case["ids"], special=True).hex() == case["detok"], case["ids"]
