"""Cores and memory of this process, with made-up hardware and control groups."""

import platform
import sys
import types

import numpy as np
import psutil
import pytest

from edgeinfer import machine
from edgeinfer.errors import BackendError


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A function that writes control-group files, over a machine of 8 threads on 4 cores and 1000 bytes free."""
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    monkeypatch.setattr(machine, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(machine, "MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(machine, "TOPOLOGY", tmp_path / "topology")
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


def test_caches_are_read_where_linux_shows_them(tmp_path, monkeypatch):
    facts = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "1280K"), ("3", "Unified", "")]
    for number, words in enumerate(facts):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, word in zip(("level", "type", "size"), words, strict=True):
            (folder / name).write_text(word + "\n")
    monkeypatch.setattr(machine, "CACHES", tmp_path)
    assert machine.caches() == ["L1 data 48K", "L1 instruction 32K", "L2 1280K"]
    monkeypatch.setattr(machine, "CACHES", tmp_path / "none")
    assert machine.caches() == []


def test_temperatures_are_those_of_the_sensors(monkeypatch):
    sensor = types.SimpleNamespace
    sensors = {
        "cpu": [sensor(label="", current=54.06, high=80.0)],
        "nvme": [sensor(label="disk", current=30.0, high=None)],
    }
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: sensors, raising=False)
    assert machine.temperatures() == ["cpu 54.1 C (throttles at 80 C)", "disk 30.0 C"]
    monkeypatch.delattr(psutil, "sensors_temperatures")
    assert machine.temperatures() == []


def test_the_cpu_has_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "CPUS", tmp_path / "cpuinfo")
    assert machine.cpu_name().endswith(f"({platform.machine()})")
    (tmp_path / "cpuinfo").write_text("processor: 0\nmodel name : A fast one\n")
    assert machine.cpu_name() == f"A fast one ({platform.machine()})"


def test_linux_tells_cores_and_memory_itself(groups, tmp_path, monkeypatch):
    groups("", **{"meminfo": "MemTotal: 9 kB\nMemAvailable:      7 kB\n"})
    for thread in range(8):
        siblings = tmp_path / "topology" / f"cpu{thread}" / "topology" / "thread_siblings_list"
        siblings.parent.mkdir(parents=True)
        siblings.write_text(f"{thread % 2},{thread % 2 + 2},{thread % 2 + 4},{thread % 2 + 6}\n")
    assert (machine.cores(), machine.available_memory()) == (2, 7 * 1024)
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda pid: {1, 3}, raising=False)
    assert machine.cores() == 1


@pytest.mark.parametrize("huge", [False, True])
def test_pages_are_zero_and_may_be_written(huge):
    pages = machine.pages(3 << 20, huge)
    assert (pages.dtype, len(pages), pages.any()) == (np.uint8, 3 << 20, False)
    pages[1 << 20 :] = 7
    assert pages.sum() == 7 * (2 << 20)


def test_pages_beyond_what_a_process_may_have():
    with pytest.raises(BackendError, match="may not have 1,125,899,906.8 MB more .*: a smaller n_ctx takes less"):
        machine.pages(1 << 50, False)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("huge", [False, True])
def test_pages_are_the_processs_own(huge):
    pages = machine.pages(8 << 20, huge)
    start = pages.ctypes.data
    with open("/proc/self/maps") as maps:
        bounds = [line.split()[:2] for line in maps]
    inside = [kind for place, kind in bounds if start in range(*(int(end, 16) for end in place.split("-")))]
    assert inside == ["rw-p"]
