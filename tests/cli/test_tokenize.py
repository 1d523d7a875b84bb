"""Tokens of a text given, piped, in parts of characters, and with control tokens."""

import json

import pytest

from tests import markov, tiny


@pytest.fixture
def model(tmp_path):
    return tiny.write(tmp_path / "m.gguf")


def test_a_line_for_each_token(edgeinfer, model):
    done = edgeinfer("tokenize", model, "a the\n")
    assert done.stderr == ""
    assert [line.split(maxsplit=1)[1] for line in done.stdout.splitlines()] == ["'a'", "' the'", "'\\n'"]


def test_parts_of_characters_are_shown_as_bytes(edgeinfer, model):
    pieces = [line.split()[1] for line in edgeinfer("tokenize", model, "😊").stdout.splitlines()]
    assert pieces == ["b'\\xf0'", "b'\\x9f'", "b'\\x98'", "b'\\x8a'"]


def test_standard_input_is_read_where_no_text_is_given(edgeinfer, model):
    given = json.loads(edgeinfer("tokenize", model, "and the\nword", "--json").stdout)
    piped = json.loads(edgeinfer("tokenize", model, "--json", input="and the\nword").stdout)
    assert given == piped and "".join(given["pieces"]) == "and the\nword"


def test_control_tokens_are_read_only_when_asked_for(edgeinfer, model):
    plain = json.loads(edgeinfer("tokenize", model, "<|im_end|>", "--json").stdout)
    special = json.loads(edgeinfer("tokenize", model, "<|im_end|>", "--special", "--json").stdout)
    assert len(plain["ids"]) > 1 and special == {"ids": [299], "pieces": ["<|im_end|>"]}


def test_bos_can_be_left_out(edgeinfer, tmp_path):
    path = markov.write(tmp_path / "bos.gguf", ["a"], markov.chain())
    assert json.loads(edgeinfer("tokenize", path, "a", "--json").stdout)["ids"] == [markov.BOS, markov.FIRST]
    assert json.loads(edgeinfer("tokenize", path, "a", "--no-add-special", "--json").stdout)["ids"] == [markov.FIRST]
