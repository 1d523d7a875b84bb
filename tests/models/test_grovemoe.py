"""GroveMoE's small experts as its authors compute them, by a twin of a model of one layer without attention.

llama.cpp computes them otherwise; test_decoders.py has its logits without them.
"""

import contextlib
import dataclasses

import numpy as np
import pytest

from edgeinfer import plan
from edgeinfer.cpu import CpuBackend
from edgeinfer.formats import gguf
from edgeinfer.reference import ReferenceBackend
from tests.models import oracle
from tests.models.decoders import CASES, PROMPT, USED

SHARE = 0.5  # of the small experts, ten times that of real models
COUNT = len(PROMPT)


@pytest.fixture
def file(tmp_path):
    shapes = {
        name: shape for name, shape in CASES["grovemoe"].shapes.items() if name[:5] in ("token", "outpu", "blk.0")
    }
    keys = CASES["grovemoe"].keys | {"block_count": 1, "expert_group_scale": SHARE}
    path = dataclasses.replace(CASES["grovemoe"], keys=keys, shapes=shapes).write(tmp_path / "m.gguf")
    with gguf.open(path) as file:
        start = file.tensors["blk.0.attn_output.weight"]
        with path.open("r+b") as bytes_:
            bytes_.seek(start.offset)
            bytes_.write(bytes(start.nbytes))
    with gguf.open(path) as file:
        yield file


def norm(x, w):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w


def twin(w):
    """float32 [tokens, vocab]; `w` has the tensors by name."""
    x = w("token_embd")[PROMPT]
    logits = []
    for row in x:
        h = norm(row, w("blk.0.ffn_norm"))
        scores = w("blk.0.ffn_gate_inp") @ h
        chosen = np.argsort(-scores)[:USED]
        weights = np.exp(scores[chosen]) / np.exp(scores[chosen]).sum()
        for expert, weight in zip(chosen, weights, strict=True):
            for kind, number, share in (("exps", expert, 1), ("chexps", expert // 2, SHARE)):
                gate, up, down = (w(f"blk.0.ffn_{part}_{kind}")[number] for part in ("gate", "up", "down"))
                z = gate @ h
                row = row + share * weight * (down @ (z / (1 + np.exp(-z)) * (up @ h)))
        logits.append(w("output") @ norm(row, w("output_norm")))
    return np.array(logits)


def test_logits_are_the_twin_s(file):
    wanted = twin(lambda name: file.tensors[f"{name}.weight"].float32())
    traced = plan.trace(file, COUNT)
    oracle.check_pieces(reference := ReferenceBackend(traced, COUNT, COUNT, 1), reference.open(), PROMPT, wanted, 1e-4)
    with contextlib.closing(CpuBackend(traced, COUNT, 2, "f32", COUNT, 1)) as backend:
        oracle.check_pieces(backend, backend.open(), PROMPT, wanted, 1e-4)
