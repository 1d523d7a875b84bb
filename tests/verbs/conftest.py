"""A builder over a tiny model."""

import pytest

from edgeinfer import config, plan
from edgeinfer.formats import gguf
from tests import tiny


@pytest.fixture
def builder(tmp_path):
    """builder(edit=..., **shape) -> Builder of a tiny llama, its file open as long as the test runs."""
    files = []

    def make(edit=None, n_ctx=64, **options):
        files.append(gguf.open(tiny.write(tmp_path / f"{len(files)}.gguf", edit=edit, **options)))
        return plan.Builder(config.read(files[-1]), config.keys_of(files[-1]), n_ctx)

    yield make
    for file in files:
        file.close()


@pytest.fixture
def tensors():
    """tensors(name=(shape), ...) -> an edit that adds tensors of zeros; __ in a name is a dot."""
    import numpy as np

    def adding(**shapes):
        def edit(keys, held):
            for name, shape in shapes.items():
                held[name.replace("__", ".")] = (np.zeros(shape, np.float32), "F32")

        return edit

    return adding
