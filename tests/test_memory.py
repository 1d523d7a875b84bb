"""Figures of memory, by hand, over plans of tiny models."""

import dataclasses

import pytest

from edgeinfer import machine, memory, state
from edgeinfer.errors import BackendError, RequestError
from edgeinfer.formats import gguf
from edgeinfer.op import Op, Value
from edgeinfer.plan import trace
from tests import tiny


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    paths = {arch: tiny.write(folder / f"{arch}.gguf", arch, context=1024) for arch in ("llama", "gemma3")}
    return {arch: trace(gguf.open(path)) for arch, path in paths.items()}


@pytest.mark.parametrize("kv_type, row", [("f32", 4 * 16), ("f16", 2 * 16), ("q8_0", 34)])
def test_kv_of_full_layers(plans, kv_type, row):
    # 2 layers, 2 kv heads, a K and a V row each, for 7 blocks of 16 tokens
    assert memory.kv_bytes(plans["llama"], kv_type, 100, 32) == 2 * 2 * 2 * row * 112


def test_window_layers_do_not_grow(plans):
    # 3 layers of 2 kv heads, of which the first two have a window of 8 tokens: with a step of 32 that is 3 blocks
    row = 2 * 2 * 2 * 16
    assert memory.kv_bytes(plans["gemma3"], "f16", 1024, 32) == row * (1024 + 2 * 48)
    assert memory.kv_bytes(plans["gemma3"], "f16", 16, 32) == row * 3 * 16


def test_pools_of_positions_have_one_row_each(plans):
    ops = [dataclasses.replace(op, attrs={**op.attrs, "stride": 4}) if op.caches else op for op in plans["llama"].ops]
    pooled, whole = dataclasses.replace(plans["llama"], ops=ops), plans["llama"]
    assert memory.kv_bytes(pooled, "f16", 1024, 32) == memory.kv_bytes(whole, "f16", 256, 32)


def test_recurrent_states_count_with_their_copies_and_do_not_grow(plans):
    plan = dataclasses.replace(plans["llama"], ops=[*plans["llama"].ops, Op("shift", Value(999, 40))])
    extra = {n: memory.kv_bytes(plan, "f16", n, 32) - memory.kv_bytes(plans["llama"], "f16", n, 32) for n in (16, 1024)}
    assert set(extra.values()) == {(1 + state.COPIES) * 3 * 64}  # 40 columns are 3 vectors


def test_unknown_kv_type_names_those_there_are(plans):
    with pytest.raises(RequestError, match="'q4_0'; must be one of f32, f16, q8_0"):
        memory.kv_bytes(plans["llama"], "q4_0", 16, 16)


def test_buffers_grow_with_the_step(plans):
    one, many = (memory.buffer_bytes(plans["llama"], n, 512) for n in (1, 101))
    assert (many - one) % 400 == 0 and many - one >= 400 * 64 * 5
    assert one > 4 * 300


def test_default_context_is_the_models_where_memory_allows(plans, monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 4 * memory.kv_bytes(plans["llama"], "f16", 1024, 32))
    assert memory.default_context(plans["llama"], "f16", 32) == 1024


@pytest.mark.parametrize("fits, context", [(1023, 768), (768, 768), (767, 512), (255, 256), (0, 256)])
def test_default_context_shrinks_to_a_multiple_of_256(plans, monkeypatch, fits, context):
    monkeypatch.setattr(machine, "available_memory", lambda: 4 * 256 * fits)  # 2 layers x 2 heads x (16 + 16) x 2 bytes
    assert memory.default_context(plans["llama"], "f16", 32) == context


def test_too_little_memory_names_the_figures(plans, monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 100_000)
    memory.check(plans["llama"], "f16", 16, 1)
    figures = r"1024 tokens needs .* MB \(KV in f16 0\.3 MB, .*0\.1 MB are available"
    with pytest.raises(BackendError, match=figures) as error:
        memory.check(plans["llama"], "f16", 1024, 1)
    assert "\n" not in str(error.value)
