"""What a benchmark runs is what generation runs; how long it takes is no test."""

import numpy as np
import pytest

from edgeinfer import cost
from edgeinfer.backend import Chunk
from edgeinfer.benchmark import Bench, Limits
from edgeinfer.benchmark import Test as Case
from edgeinfer.measure import Probe
from tests import tiny, views

PROMPT, TOKENS = 5, 16


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Of a model with a view of its output matrix after 8 steps."""
    views.soon(monkeypatch)
    monkeypatch.setattr(Probe, "read_bandwidth", lambda *_, **__: 1e9)
    monkeypatch.setattr(Probe, "dot_peak", lambda *_, **__: 1e9)
    path = tiny.write(tmp_path / "model.gguf", "llama", "Q8_0")
    with Bench(str(path), 1, "f32", 64) as made:
        yield made


def test_tokens_are_the_greedy_choice_of_those_before(bench, monkeypatch):
    asked = []
    plain = bench.backend.step_top
    monkeypatch.setattr(bench.backend, "step_top", lambda chunk, k: asked.append((chunk.ids, k)) or plain(chunk, k))
    assert bench.run(Case(prompt=PROMPT, gen=TOKENS)).seconds > 0
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
    run = bench.run(test)
    matrix = bench.plan.tensors[bench.plan.ops[-1].weights[0]].nbytes
    assert 0 != (spared := bench.spared) < TOKENS * matrix  # of so small a matrix the view is no gain
    whole = bench.watched(test, lambda: run.seconds)
    assert whole.share - run.share == pytest.approx(spared / run.seconds / 1e9)


def test_a_share_is_that_of_the_limits_beside_it(bench, monkeypatch):
    """The machine gets slower and slower."""
    reads, peaks = iter((8e9, 4e9, 2e9, 1e9)), iter((8e8, 4e8, 2e8, 1e8))
    monkeypatch.setattr(Probe, "read_bandwidth", lambda *_, **__: next(reads))
    monkeypatch.setattr(Probe, "dot_peak", lambda *_, **__: next(peaks))
    runs = [bench.watched(Case(prompt=PROMPT), lambda: 2.0), bench.watched(Case(rows=3), lambda: 2.0)]
    assert [run.limits for run in runs] == [Limits(6e9, 6e8), Limits(1.5e9, 1.5e8)]
    assert runs[0].share == cost.products(bench.plan, PROMPT) * PROMPT / 2 / 6e8
    assert runs[1].share == (cost.weight_bytes(bench.plan) + cost.kv_bytes(bench.plan, "f32", 1.5)) / 2 / 1.5e9


def test_phases_are_beside_limits_too(bench):
    """Bytes and products that were possible: the same in each second, as the limits are."""
    phases = bench.phases(Case(prompt=PROMPT))
    assert sum(phase.possible for phase in phases) == pytest.approx(
        1e9 * sum(phase.seconds for phase in phases if phase.name != "waiting")
    )
    assert sum(phase.products for phase in phases) == pytest.approx(cost.products(bench.plan, PROMPT) * PROMPT)
