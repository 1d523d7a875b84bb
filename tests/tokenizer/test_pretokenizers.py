"""Pre-tokenizers: what the expressions cut, and that every name llama.cpp knows gives its ids."""

import json
import pathlib
import warnings

import pytest
from tokenizers import Regex, pre_tokenizers

from edgeinfer.tokenizer import Tokenizer
from edgeinfer.tokenizer.pretokenizers import PRE_TOKENIZERS, pre_tokenizer

NOT_YET = {"granite-embed-multi-311m", "sarvam-moe"}  # blanks as U+2581 and no bytes: another kind of BPE


def words(name: str, text: str) -> list[str]:
    steps = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in PRE_TOKENIZERS[name].expressions]
    return [word for word, _ in pre_tokenizers.Sequence(steps).pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("name", "text", "cut"),
    [
        ("gpt-2", "He's 123  ok!", ["He", "'s", " 123", " ", " ok", "!"]),
        ("llama3", "IT'S 1234\n\n x", ["IT", "'S", " ", "123", "4", "\n\n", " x"]),
        ("qwen2", "a 12\tb", ["a", " ", "1", "2", "\tb"]),
        ("smollm", "x 12", ["x", " ", "1", "2"]),
        ("default", "a+b 1234", ["a", "+", "b", " ", "123", "4"]),
        ("gpt-4o", "fooBarBAZ's", ["foo", "Bar", "BAZ's"]),
        ("tiny_aya", "n 1234567", ["n", " ", "1", "234", "567"]),
        ("superbpe", "12345678", ["12", "345", "678"]),
        ("deepseek-coder", "中文a", ["中文", "a"]),
        ("kimi-k2", "ab中文", ["ab", "中文"]),
    ],
)
def test_words(name: str, text: str, cut: list[str]) -> None:
    assert words(name, text) == cut


@pytest.mark.parametrize("name", sorted(PRE_TOKENIZERS))
def test_nothing_is_lost(name: str) -> None:
    text = "I'm  12345 x\u3000中文 é\r\n\t…(1)e\u0301 😀"
    assert "".join(words(name, text)) == text


@pytest.mark.parametrize("name", ["tiny_aya", "afmoe", "superbpe", "default", "llama3"])
def test_long_numbers_take_linear_time(name: str) -> None:
    assert sum(map(len, words(name, "1" * 100_000))) == 100_000  # quadratic time would be a minute


def test_unknown_name_warns_and_names_the_closest() -> None:
    with pytest.warns(UserWarning, match="'llama-bpee'.*'llama-bpe'.*'default'"):
        assert pre_tokenizer("llama-bpee") is PRE_TOKENIZERS["default"]


def test_kit_knows_no_other_names(shared: pathlib.Path) -> None:
    groups = json.loads((shared / "kit/tokenizer/pretok.json").read_text())["groups"]
    assert {name for group in groups for name in group["pre"]} == PRE_TOKENIZERS.keys() | NOT_YET


def test_kit_ids(shared: pathlib.Path) -> None:
    folder = shared / "kit/tokenizer"
    data = json.loads((folder / "pretok.json").read_text())
    texts = [bytes.fromhex(text) for text in data["strings_hex"]]
    wrong = []
    for group in data["groups"]:
        for family in {PRE_TOKENIZERS[name]: name for name in group["pre"] if name not in NOT_YET}.values():
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                tokenizer = Tokenizer.from_gguf(folder / data["vocab"], pre=family)
            wrong += [
                (family, text, ids)
                for text, ids in zip(texts, group["ids"], strict=True)
                if tokenizer.encode(text, add_special=False) != ids
            ]
    assert wrong == []
