"""Kernels built by several processes are the ones a single process builds; helpers that fail are done without."""

import base64
import gc
import json
import sys
import threading
import time

import pytest

from edgeinfer.simd_kernels import building, cpu

PORTABLE = cpu.tier("portable")
NAMES = "add copy dot.F32 embed.float l2_norm layer_norm mix norm outputs pick run temper".split()


@pytest.fixture
def shares(monkeypatch):
    """What is built in this process, a list for each call, with two processes allowed."""
    done, build_here = [], building.build_here
    monkeypatch.setattr(building, "_cores", lambda: 2)
    monkeypatch.setattr(building, "build_here", lambda names, tier: done.append(list(names)) or build_here(names, tier))
    return done


@pytest.fixture
def delivered(monkeypatch):
    """The name of the kernel that a helper delivers, as b"code", before it dies."""
    name = sorted(NAMES)[1]
    line = json.dumps([name, base64.b64encode(b"code").decode()])
    monkeypatch.setattr(building, "HELPER", f"print({line!r})")
    return name


def test_two_processes_share_the_kernels(shares):
    built = dict(building.build(NAMES, PORTABLE))
    assert sorted(built) == sorted(NAMES) and len(shares) == 1 and len(shares[0]) == len(NAMES) // 2
    there = next(name for name in NAMES if name not in shares[0])
    assert built[there] == dict(building.build_here([there], PORTABLE))[there]


def test_few_kernels_are_no_work_for_two(shares):
    assert sorted(dict(building.build(NAMES[:3], PORTABLE))) == sorted(NAMES[:3])
    assert shares == [sorted(NAMES[:3])]


@pytest.mark.parametrize("interpreter", ["/no/such/python", "", None, "/bin/blender"])
def test_where_no_helper_starts_all_is_built_here(shares, monkeypatch, interpreter):
    monkeypatch.setattr(sys, "executable", interpreter)
    assert sorted(name for name, _ in building.build(NAMES, PORTABLE)) == sorted(NAMES)
    assert sorted(sum(shares, [])) == sorted(NAMES)


@pytest.mark.parametrize("helper", ["raise SystemExit(3)", "pass", """print('{"add": "AA')"""])
def test_a_helper_that_dies_or_is_cut_short_is_done_without(shares, monkeypatch, helper):
    monkeypatch.setattr(building, "HELPER", helper)
    assert sorted(name for name, _ in building.build(NAMES, PORTABLE)) == sorted(NAMES)
    assert sorted(sum(shares, [])) == sorted(NAMES)


def test_what_a_helper_delivered_before_it_died_is_not_built_again(shares, delivered):
    built = dict(building.build(NAMES, PORTABLE))
    assert sorted(built) == sorted(NAMES) and built[delivered] == b"code"
    assert sorted(sum(shares, [])) == sorted(set(NAMES) - {delivered})


def test_a_system_without_threads_builds_all_here(shares, monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert sorted(name for name, _ in building.build(NAMES, PORTABLE)) == sorted(NAMES)
    assert sorted(sum(shares, [])) == sorted(NAMES)


def test_an_interrupt_comes_after_what_helpers_have_delivered(shares, delivered, monkeypatch):
    def interrupted(names, tier):
        deadline = time.monotonic() + 60
        while not any(helper._came.qsize() for helper in gc.get_objects() if isinstance(helper, building._Helper)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(building, "build_here", interrupted)
    some = building.build(NAMES, PORTABLE)
    assert next(some) == (delivered, b"code")
    with pytest.raises(KeyboardInterrupt):
        next(some)


def test_kernels_come_one_by_one_and_who_leaves_early_leaves_no_process(shares, monkeypatch):
    started, start = [], building._start
    monkeypatch.setattr(building, "_start", lambda: started.append(start()) or started[-1])
    some = building.build(NAMES, PORTABLE)
    assert next(some)[0] in NAMES
    some.close()
    assert [process.poll() is None for process in started] == [False]


def test_attention_is_dealt_out_first():
    names = [f"dot.{letter}" for letter in "abcdef"] + ["attend.f16", "attend.f32"]
    assert [name for name in sorted(names, key=building._heavy_first)][:2] == ["attend.f16", "attend.f32"]
