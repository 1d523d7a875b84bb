"""Kernels built by several processes are the ones a single process builds; helpers that fail are done without."""

import sys

import pytest

from edgeinfer.simd_kernels import building, cpu

PORTABLE = cpu.tier("portable")
NAMES = "add copy dot.F32 embed.float l2_norm layer_norm mix norm outputs pick run transpose".split()


@pytest.fixture
def shares(monkeypatch):
    """What is built in this process, a list for each call, with two processes allowed."""
    done, build_here = [], building.build_here
    monkeypatch.setattr(building, "_cores", lambda: 2)
    monkeypatch.setattr(building, "build_here", lambda names, tier: done.append(list(names)) or build_here(names, tier))
    return done


def test_two_processes_share_the_kernels(shares):
    built = building.build(NAMES, PORTABLE)
    assert sorted(built) == sorted(NAMES) and len(shares) == 1 and len(shares[0]) == len(NAMES) // 2
    there = next(name for name in NAMES if name not in shares[0])
    assert built[there] == building.build_here([there], PORTABLE)[there]


def test_few_kernels_are_no_work_for_two(shares):
    assert sorted(building.build(NAMES[:3], PORTABLE)) == sorted(NAMES[:3])
    assert shares == [sorted(NAMES[:3])]


@pytest.mark.parametrize("interpreter", ["/no/such/python", "", None, "/bin/blender"])
def test_where_no_helper_starts_all_is_built_here(shares, monkeypatch, interpreter):
    monkeypatch.setattr(sys, "executable", interpreter)
    assert sorted(building.build(NAMES, PORTABLE)) == sorted(NAMES)
    assert sorted(sum(shares, [])) == sorted(NAMES)


@pytest.mark.parametrize("helper", ["raise SystemExit(3)", "pass", """print('{"add": "AA')"""])
def test_a_helper_that_dies_or_is_cut_short_is_done_without(shares, monkeypatch, helper):
    monkeypatch.setattr(building, "HELPER", helper)
    assert sorted(building.build(NAMES, PORTABLE)) == sorted(NAMES)
    assert sorted(sum(shares, [])) == sorted(NAMES)


def test_attention_is_dealt_out_first():
    names = [f"dot.{letter}" for letter in "abcdef"] + ["attend.f16", "attend.f32"]
    assert [name for name in sorted(names, key=building._heavy_first)][:2] == ["attend.f16", "attend.f32"]
