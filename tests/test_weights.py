"""Weights in the file's pages or in huge ones: the same bytes, and one clear error where there are none."""

import numpy as np
import pytest

from edgeinfer import LLM, machine, weights
from edgeinfer.errors import BackendError, RequestError
from edgeinfer.formats import gguf
from edgeinfer.plan import trace
from edgeinfer.weights import Weights
from tests import tiny


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("models") / "llama.gguf", "llama", context=64)


@pytest.fixture
def plan(path):
    with gguf.open(path) as file:
        yield trace(file)


def size(plan):
    return sum(tensor.nbytes for tensor in plan.tensors.values())


@pytest.fixture
def offered(monkeypatch):
    """On every system: where there are no huge pages such memory is of common ones."""
    monkeypatch.setattr(weights, "offered", lambda: True)
    monkeypatch.setattr(weights.mmap, "MADV_HUGEPAGE", 0, raising=False)


def test_the_files_own_pages(plan):
    where = Weights("mmap")
    assert where.place(plan) == plan
    assert where.copied_bytes == where.huge_bytes == 0


def test_a_copy_has_the_same_bytes_elsewhere(plan, offered):
    where = Weights("huge")
    placed = where.place(plan)
    assert list(placed.tensors) == list(plan.tensors) and placed.ops == plan.ops
    for name, tensor in plan.tensors.items():
        copy = placed.tensors[name]
        assert (copy.type, copy.shape, copy.name) == (tensor.type, tensor.shape, name)
        np.testing.assert_array_equal(copy.data, tensor.data)
        assert not np.shares_memory(copy.data, tensor.data)
        assert copy.data.ctypes.data % weights.BORDER == 0
    assert size(plan) <= where.copied_bytes < size(plan) + weights.BORDER * len(plan.tensors)
    assert 0 <= where.huge_bytes <= where.copied_bytes


def test_weights_of_several_plans_are_copied_once(plan, path, offered):
    where = Weights("huge")
    first, copied = where.place(plan), where.copied_bytes
    with gguf.open(path) as file:
        second = where.place(trace(file, 32))
    assert where.copied_bytes == copied
    assert all(np.shares_memory(second.tensors[name].data, t.data) for name, t in first.tensors.items())


@pytest.mark.parametrize("times, copied", [(weights.SHARE + 1, True), (weights.SHARE - 1, False)])
def test_auto_copies_where_memory_plainly_allows(plan, offered, monkeypatch, times, copied):
    monkeypatch.setattr(machine, "available_memory", lambda: times * size(plan))
    where = Weights("auto")
    where.place(plan)
    assert bool(where.copied_bytes) == copied


def test_auto_does_without_where_the_system_has_none(plan, monkeypatch):
    monkeypatch.setattr(weights, "offered", lambda: False)
    where = Weights("auto")
    where.place(plan)
    assert where.copied_bytes == 0


def test_memory_too_small_is_one_error_that_names_the_figures(plan, offered, monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 1000)
    with pytest.raises(BackendError, match=r"weights='huge': the copy takes 0\.\d MB and 0\.0 MB are available"):
        Weights("huge").place(plan)


def test_a_system_without_huge_pages_is_one_error(plan, monkeypatch):
    monkeypatch.setattr(weights, "offered", lambda: False)
    with pytest.raises(BackendError, match="no huge pages"):
        Weights("huge").place(plan)


@pytest.mark.parametrize(
    "setting, expected", [("always [madvise] never", True), ("[always] madvise never", True), ("[never]", False)]
)
def test_what_the_system_offers(tmp_path, monkeypatch, setting, expected):
    monkeypatch.setattr(weights, "OFFERED", tmp_path / "enabled")
    monkeypatch.setattr(weights.mmap, "MADV_HUGEPAGE", 14, raising=False)
    assert not weights.offered()
    (tmp_path / "enabled").write_text(setting)
    assert weights.offered() == expected


def test_an_unknown_kind_names_those_there_are(path):
    with pytest.raises(RequestError, match="weights is 'swap'; must be one of mmap, huge, auto"):
        LLM(path, weights="swap")


def test_a_model_answers_alike_from_either(path, offered):
    with LLM(path, weights="mmap", n_threads=1) as one, LLM(path, weights="huge", n_threads=1) as other:
        assert (one.weights.copied_bytes > 0, other.weights.copied_bytes > 0) == (False, True)
        np.testing.assert_array_equal(one.logits([1, 2, 3]), other.logits([1, 2, 3]))
