"""Vectors on the command line: a line for each text, given or piped."""

import json

import numpy as np
import pytest

from tests.models.encoders import CASES, DIM


@pytest.fixture
def model(tmp_path):
    return CASES["bert"].write(tmp_path / "m.gguf")


def vectors(done):
    assert done.returncode == 0, done.stderr
    return np.array([json.loads(line) for line in done.stdout.splitlines()])


def test_a_line_for_each_text(edgeinfer, model):
    given = vectors(edgeinfer("embed", model, "a b", "c"))
    assert given.shape == (2, DIM) and np.allclose(np.linalg.norm(given, axis=1), 1)
    assert (vectors(edgeinfer("embed", model, input="a b\nc\n")) == given).all()


def test_options(edgeinfer, model):
    short = vectors(edgeinfer("embed", model, "a b", "--dimensions", 4, "--pooling", "mean"))
    plain = vectors(edgeinfer("embed", model, "a b", "--no-normalize", "--pooling", "mean"))[:, :4]
    assert np.allclose(short, plain / np.linalg.norm(plain), atol=1e-6)


def test_mistakes_are_one_line(edgeinfer, model):
    assert "no text" in edgeinfer.fails(2, "embed", model)
    edgeinfer("embed", model, "a")  # which builds the kernels, where no test has, and says so
    assert "pooling is 'max'" in edgeinfer.fails(2, "embed", model, "a", "--pooling", "max")
