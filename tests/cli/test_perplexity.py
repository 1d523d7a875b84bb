"""Perplexity of chains whose probabilities are known, to the thousandth that the eps of their norm leaves."""

import json
import math
import os

import numpy as np
import pytest

from tests import markov

A, B = markov.FIRST, markov.FIRST + 1


def halves(size):
    """After BOS and after each token: a and b with probability 1/4 and 3/4, whatever else impossible."""
    logits = np.full((size, size), -30.0, np.float32)
    logits[:, A], logits[:, B] = math.log(1 / 4), math.log(3 / 4)
    return logits


def measure(edgeinfer, path, text, *options):
    (path.parent / "text").write_text(text)
    done = edgeinfer("perplexity", path, path.parent / "text", "--json", "--backend", "reference", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("ctx", ["512", "3", "2"])
def test_every_token_is_predicted_where_windows_begin_with_bos(edgeinfer, tmp_path, ctx):
    path = markov.write(tmp_path / "m.gguf", ["a", "b"], halves, context=512)
    result = measure(edgeinfer, path, "abbbabb", "--ctx", ctx)
    expected = -(2 * math.log(1 / 4) + 5 * math.log(3 / 4)) / 7
    assert result["tokens"] == 7
    assert result["nll"] == pytest.approx(expected, rel=1e-3)
    assert result["perplexity"] == pytest.approx(math.exp(result["nll"]))


def test_without_bos_the_first_token_of_each_window_is_given(edgeinfer, tmp_path):
    path = markov.write(tmp_path / "m.gguf", ["a", "b"], halves, add_bos=False)
    result = measure(edgeinfer, path, "abaabb", "--ctx", "3")
    assert result["tokens"] == 4
    assert result["nll"] == pytest.approx(-(1 * math.log(1 / 4) + 3 * math.log(3 / 4)) / 4, rel=1e-3)


def test_the_result_in_words(edgeinfer, tmp_path):
    path = markov.write(tmp_path / "m.gguf", ["a", "b"], halves)
    (tmp_path / "text").write_text("bb")
    done = edgeinfer("perplexity", path, tmp_path / "text", "--ctx", "16", "--backend", "reference")
    words = done.stdout.split()
    assert words[0] == "perplexity" and float(words[1].rstrip(",")) == pytest.approx(4 / 3, rel=1e-3)
    assert words[2:4] == ["mean", "nll"] and float(words[4]) == pytest.approx(math.log(4 / 3), rel=1e-3)
    assert words[5:] == ["nats,", "2", "tokens", "predicted"] and done.stderr == ""


def test_a_text_that_is_missing_or_empty_is_the_users_mistake(edgeinfer, tmp_path):
    path = markov.write(tmp_path / "m.gguf", ["a", "b"], halves)
    assert "No such file" in edgeinfer.fails(2, "perplexity", path, tmp_path / "none")
    (tmp_path / "empty").write_text("")
    options = ["--ctx", "16", "--backend", "reference"]
    assert "too short" in edgeinfer.fails(2, "perplexity", path, tmp_path / "empty", *options)


@pytest.mark.skipif(os.name == "nt", reason="needs a file without end")
def test_a_text_without_end_is_refused(edgeinfer, tmp_path):
    path = markov.write(tmp_path / "m.gguf", ["a", "b"], halves)
    assert "more than 256 MB of text" in edgeinfer.fails(2, "perplexity", path, "/dev/zero", "--backend", "reference")
