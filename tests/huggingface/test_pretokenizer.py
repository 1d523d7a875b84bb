"""Pre-tokenizers by their names: those of well-known publishers, as their files have them."""

import warnings

import pytest

from edgeinfer.errors import FormatError
from edgeinfer.huggingface import pretokenizer

CONTRACTION, REST = "(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": True}


def cut(*expressions):
    steps = [{"type": "Split", "pattern": {"Regex": e}, "behavior": "Isolated", "invert": False} for e in expressions]
    return {"type": "Sequence", "pretokenizers": [*steps, {**GPT2, "use_regex": False}]}


def words(digits):
    return cut(rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{REST}")


TEKKEN = cut(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    rf"|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{REST}"
)
DEEPSEEK_V3 = cut(
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
)


@pytest.mark.parametrize(
    ("described", "whole_words", "arch", "name"),
    [
        (GPT2, False, "gpt2", "gpt-2"),
        (GPT2, False, "olmo", "olmo"),
        ({"type": "Sequence", "pretokenizers": [DIGITS, GPT2]}, False, "starcoder2", "starcoder"),
        ({"type": "Sequence", "pretokenizers": [DIGITS, GPT2]}, False, "command-r", "command-r"),
        (words(r"\p{N}{1,3}"), True, "llama", "llama3"),
        (words(r"\p{N}{1,3}"), False, "llama", "dbrx"),
        (words(r"\p{N}"), False, "qwen2", "qwen2"),
        (TEKKEN, True, "llama", "tekken"),
        (DEEPSEEK_V3, False, "deepseek2", "deepseek-v3"),
    ],
)
def test_well_known_ones_have_their_names(described, whole_words, arch, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pretokenizer.name(described, whole_words, arch) == name


def test_of_another_one_the_closest_is_named_in_a_warning():
    with pytest.warns(UserWarning, match="not known.*'llama3'"):
        assert pretokenizer.name(words("[0-9]{2}"), False, "llama") == "llama3"


def test_what_the_library_cannot_read():
    with pytest.raises(FormatError, match="pre_tokenizer"):
        pretokenizer.name(cut("(unclosed"), False, "llama")
    with pytest.raises(FormatError, match="pre_tokenizer"):
        pretokenizer.name({"type": "Unheard"}, False, "llama")
