"""Cores and memory of this process, with made-up hardware and control groups."""

import types

import psutil
import pytest

from edgeinfer import machine


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A function that writes control-group files, over a machine of 8 threads on 4 cores and 1000 bytes free."""
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    monkeypatch.setattr(machine, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 8 if logical else 4)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: types.SimpleNamespace(available=1000))

    def write(membership, **files):
        (tmp_path / "membership").write_text(membership)
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def test_physical_cores_without_control_groups(groups):
    assert (machine.cores(), machine.available_memory()) == (4, 1000)


def test_affinity_bounds_cores(groups, monkeypatch):
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda pid: {3})
    assert machine.cores() == 1


def test_unknown_topology_counts_what_is_allowed(groups, monkeypatch):
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: None)
    assert machine.cores() == 8


@pytest.mark.parametrize("quota, cores", [("150000", 1), ("20000", 1), ("300000", 3), ("max", 4)])
def test_quota_of_version_2(groups, quota, cores):
    groups("0::/\n", cpu_dot_max=f"{quota} 100000\n")
    assert machine.cores() == cores


def test_quota_of_a_group_above_holds_too(groups):
    groups("0::/user/app\n", user__app__cpu_dot_max="max 100000", user__cpu_dot_max="200000 100000")
    assert machine.cores() == 2


def test_version_1(groups):
    groups(
        "5:cpu,cpuacct:/box\n4:memory:/box\n",
        cpu__cpu_dot_cfs_quota_us="250000",
        cpu__cpu_dot_cfs_period_us="100000",
        memory__memory_dot_limit_in_bytes="900",
        memory__memory_dot_usage_in_bytes="700",
        memory__memory_dot_stat="cache 1\ntotal_cache 300\n",
    )
    assert (machine.cores(), machine.available_memory()) == (2, 500)


def test_version_1_without_quota(groups):
    groups("5:cpu:/\n", cpu__cpu_dot_cfs_quota_us="-1", cpu__cpu_dot_cfs_period_us="100000")
    assert machine.cores() == 4


def test_memory_of_version_2_counts_file_pages_as_free(groups):
    groups("0::/a\n", a__memory_dot_max="800", a__memory_dot_current="600", a__memory_dot_stat="anon 1\nfile 250\n")
    assert machine.available_memory() == 450


def test_memory_over_its_limit_is_none(groups):
    groups("0::/\n", memory_dot_max="800", memory_dot_current="900", memory_dot_stat="file 50\n")
    assert machine.available_memory() == 0
