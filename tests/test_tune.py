"""The choice of threads: all cores unless fewer win clearly; what is kept, and what is wrong with a file of it."""

import itertools
import json
import time

import pytest

from edgeinfer import machine, tune
from edgeinfer.formats import gguf
from edgeinfer.plan import trace
from tests import tiny
from tests.models.decoders import ANSWERS


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr(tune, "_path", lambda: tmp_path / "home" / "threads.json")
    monkeypatch.setattr(machine, "cores", lambda: 4)
    with gguf.open(tiny.write(tmp_path / "m.gguf")) as file:
        yield trace(file)


def test_a_model_that_answers_is_measured_too(home, tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEINFER_HOME", str(home))
    monkeypatch.setattr(machine, "cores", lambda: 1)
    with gguf.open(ANSWERS["t5"].write(tmp_path / "m.gguf")) as file:
        assert tune.tune(trace(file)) == tune.Threads(1, 1)


@pytest.mark.parametrize("cores, tried", [(1, [1]), (2, [2, 1]), (3, [3, 2, 1]), (8, [8, 7, 6, 4, 2, 1])])
def test_what_is_tried(cores, tried):
    assert tune.counts(cores) == tried


@pytest.mark.parametrize(
    "seconds, chosen",
    [
        ({4: 1.0, 2: 0.5, 1: 0.9}, 2),
        ({4: 1.0, 2: 0.98, 1: 2.0}, 4),  # within the margin
        ({4: 1.0, 2: 1.5, 1: 2.0}, 4),
        ({4: 1.0}, 4),
    ],
)
def test_fewer_threads_must_win_clearly(seconds, chosen):
    assert tune.choose(seconds.get, list(seconds)) == chosen


def test_luck_is_not_enough():
    """Two threads are quicker at first, and then as often slower."""
    noise = itertools.chain([0.1], itertools.cycle([0.5, 1.5]))
    assert tune.choose(lambda count: 1.0 if count == 4 else next(noise), [4, 2]) == 4


def test_what_could_not_be_measured_in_time_stays_as_it_was(monkeypatch):
    now = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(now)))
    assert tune.choose({4: 1.0, 2: 0.1}.get, [4, 2]) == 4


def test_what_is_kept_comes_back(plan):
    assert tune.kept(plan) == tune.Threads(4, 4)
    path = tune.keep(plan, tune.Threads(2, 3))
    assert tune.kept(plan) == tune.Threads(2, 3)
    assert [file.name for file in path.parent.iterdir()] == ["threads.json"]


def test_other_shapes_and_cpus_are_left_alone(plan, tmp_path, monkeypatch):
    tune.keep(plan, tune.Threads(2, 3))
    with gguf.open(tiny.write(tmp_path / "other.gguf", "gemma3")) as file:
        other = trace(file)
        assert tune.kept(other) == tune.default()
        tune.keep(other, tune.Threads(1, 1))
    assert tune.kept(plan) == tune.Threads(2, 3)
    monkeypatch.setattr(machine, "cpu_name", lambda: "another")
    assert tune.kept(plan) == tune.default()
    tune.keep(plan, tune.Threads(4, 1))
    assert tune.kept(plan) == tune.Threads(4, 1)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', "\xff", "[" * 200_000], ids=len)
def test_a_damaged_file_is_ignored_with_a_warning(plan, text):
    path = tune.keep(plan, tune.Threads(2, 2))
    path.write_text(text, encoding="latin-1")
    with pytest.warns(UserWarning, match="damaged and ignored"):
        assert tune.kept(plan) == tune.default()
    with pytest.warns(UserWarning, match="damaged"):
        tune.keep(plan, tune.Threads(1, 2))
    assert tune.kept(plan) == tune.Threads(1, 2)


def test_a_place_where_no_file_can_be_is_no_damage(plan, tmp_path, monkeypatch, recwarn):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("EDGEINFER_HOME", str(tmp_path / "file"))
    assert tune.kept(plan) == tune.default() and not recwarn.list


@pytest.mark.parametrize("numbers", [None, [], [2], [0, 2], [2, 5], ["2", 2], [True, 2], {"decode": 2}])
def test_numbers_that_cannot_be_are_ignored(plan, numbers):
    path = tune.keep(plan, tune.Threads(2, 2))
    everything = json.loads(path.read_text())
    (shapes,) = everything.values()
    shapes.update(dict.fromkeys(shapes, numbers))
    path.write_text(json.dumps(everything))
    assert tune.kept(plan) == tune.default()


def test_a_model_is_measured_and_all_cores_of_one_stay(plan, monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 1)
    assert tune.tune(plan) == tune.Threads(1, 1)
