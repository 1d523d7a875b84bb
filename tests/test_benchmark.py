"""What a benchmark runs is what generation runs; how long it takes is no test."""

import numpy as np
import pytest

from edgeinfer import benchmark, screen, selection
from edgeinfer.backend import Chunk
from edgeinfer.benchmark import Bench
from edgeinfer.benchmark import Test as Case
from tests import tiny

PROMPT, TOKENS = 5, 16


@pytest.fixture
def bench(home, tmp_path, monkeypatch):
    """Of a model with a view of its output matrix after 8 steps."""
    monkeypatch.setenv("EDGEINFER_HOME", str(home))
    monkeypatch.setattr(screen, "fits", lambda plan: True)
    monkeypatch.setattr(screen, "SEEN", 6)
    monkeypatch.setattr(screen, "STEPS", 2)
    monkeypatch.setattr(selection, "RETRY", 1)
    monkeypatch.setattr(benchmark.measure, "read_bandwidth", lambda *_: 1e9)
    monkeypatch.setattr(benchmark.measure, "dot_peak", lambda *_: 1e9)
    path = tiny.write(tmp_path / "model.gguf", "llama", "Q8_0")
    with Bench(str(path), 1, "f32", 64) as made:
        yield made


def test_tokens_are_the_greedy_choice_of_those_before(bench, monkeypatch):
    asked = []
    plain = bench.backend.step_top
    monkeypatch.setattr(bench.backend, "step_top", lambda chunk, k: asked.append((chunk.ids, k)) or plain(chunk, k))
    assert bench.run(Case(prompt=PROMPT, gen=TOKENS)) > 0
    assert bench.backend.length(bench.seq) == PROMPT + TOKENS
    assert [k for _, k in asked] == [1] * TOKENS
    ids = [int(ids[0]) for ids, _ in asked]
    bench.backend.cut(bench.seq, PROMPT)
    logits = np.zeros((1, bench.backend.n_vocab), np.float32)
    for before, after in zip(ids, ids[1:], strict=False):
        bench.backend.step([Chunk(bench.seq, [before], 1)], logits)
        assert logits.argmax() == after


def test_the_bytes_a_view_spares_are_not_counted_as_read(bench):
    test = Case(gen=TOKENS)
    bench.run(test)
    matrix = bench.plan.tensors[bench.plan.ops[-1].weights[0]].nbytes
    assert 0 != bench.spared < TOKENS * matrix  # of so small a matrix the view is no gain
    share, spared = bench.share(test, 1.0), bench.spared
    bench.spared = 0
    assert bench.share(test, 1.0) - share == pytest.approx(spared / 1e9)
    bench.run(Case(prompt=PROMPT))
    assert bench.spared == 0
