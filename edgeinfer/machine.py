"""What this machine grants this process: cores and memory.

The hardware's figures, lowered by CPU affinity and by Linux control groups (version 2 and 1), which is how containers
are bounded: the limits of the process's own group and of every group above it hold together."""

import contextlib
import mmap
import os
import platform
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from edgeinfer.errors import BackendError

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
CPUS = Path("/proc/cpuinfo")
MEMORY = Path("/proc/meminfo")
TOPOLOGY = Path("/sys/devices/system/cpu")
CACHES = TOPOLOGY / "cpu0" / "cache"


def cores() -> int:
    """Physical cores this process may use, at least 1: the default number of threads."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return max(1, min([_physical(allowed), *_core_quotas()]))


def available_memory() -> int:
    """Bytes this process can take without swapping."""
    return max(0, min([_free_memory(), *_memory_quotas()]))


def _physical(threads: Collection[int]) -> int:
    """Cores that these hardware threads belong to."""
    cores = {tuple(lines(TOPOLOGY / f"cpu{thread}" / "topology" / "thread_siblings_list")) for thread in threads}
    if () not in cores:
        return len(cores)
    import psutil  # takes 20 ms to import, which a start on Linux does without

    return min(len(threads), int(psutil.cpu_count(logical=False) or len(threads)))


def _free_memory() -> int:
    """Of the whole machine."""
    for line in lines(MEMORY):
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    import psutil

    return int(psutil.virtual_memory().available)


def pages(size: int, huge: bool) -> np.ndarray:
    """uint8[size], zero, this process's own, in huge pages as far as the system has them, or in small ones.

    They are taken when first written to.  (numpy asks for huge pages, where there is room for one.)  BackendError
    where a limit of this process forbids as much."""
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}  # not on Windows
    try:
        memory = mmap.mmap(-1, size, **private)
    except OSError as error:
        raise BackendError(
            f"this process may not have {size / 1e6:,.1f} MB more ({error.strerror}): a smaller n_ctx takes less"
        ) from None
    advice = getattr(mmap, "MADV_HUGEPAGE" if huge else "MADV_NOHUGEPAGE", None)
    if advice is not None:
        with contextlib.suppress(OSError):  # of a system that knows none
            memory.madvise(advice)
    return np.frombuffer(memory, np.uint8)


def cpu_name() -> str:
    """As Linux or the platform has it, and the architecture."""
    named = [line.partition(":")[2].strip() for line in lines(CPUS) if line.startswith(("model name", "Model"))]
    return f"{named[0] if named else platform.processor() or 'unknown'} ({platform.machine()})"


def caches() -> list[str]:
    """Of the first core, as Linux shows them: `L1 data 48K`, ...; none where the system does not tell."""
    folders = sorted(CACHES.glob("index*"))
    facts = [[" ".join(lines(folder / name)) for name in ("level", "type", "size")] for folder in folders]
    return [f"L{level} {'' if kind == 'Unified' else kind.lower() + ' '}{size}" for level, kind, size in facts if size]


def temperatures() -> list[str]:
    """What the system's sensors say: `cpu-thermal 54.1 C`, ..., with the mark the system is throttled at, if known."""
    import psutil

    if not hasattr(psutil, "sensors_temperatures"):
        return []
    return [
        f"{sensor.label or name} {sensor.current:.1f} C"
        + (f" (throttles at {sensor.high:.0f} C)" if sensor.high else "")
        for name, sensors in psutil.sensors_temperatures().items()
        for sensor in sensors
    ]


def _core_quotas() -> Iterator[int]:
    for group in _groups("cpu"):
        quota, period = [*_numbers(group / "cpu.max"), 0, 0][:2]
        if not period:
            quota, period = ([*_numbers(group / f"cpu.cfs_{name}_us"), 0][0] for name in ("quota", "period"))
        if quota > 0 and period > 0:
            yield quota // period


def _memory_quotas() -> Iterator[int]:
    """What is left of each group's limit.  Pages of files do not count: they are dropped when memory is short."""
    for group in _groups("memory"):
        for limit, used, cached in (
            ("memory.max", "memory.current", "file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"),
        ):
            for most, now in zip(_numbers(group / limit), _numbers(group / used), strict=False):
                yield most - now + _statistic(group / "memory.stat", cached)


def _groups(controller: str) -> Iterator[Path]:
    """Folders of the control groups that bound this process, its own first.  A container may see only the topmost."""
    for line in lines(MEMBERSHIP):
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") or not controllers:
            root = CGROUPS / controller if controllers else CGROUPS
            own = root / path.lstrip("/")
            yield from (folder for folder in (own, *own.parents) if folder == root or root in folder.parents)


def _statistic(path: Path, name: str) -> int:
    return next((int(line.split()[1]) for line in lines(path) if line.split()[0] == name), 0)


def _numbers(path: Path) -> list[int]:
    """The numbers a file begins with; none if there is no such file or no limit ("max")."""
    words = " ".join(lines(path)).split()
    return [int(word) for word in words] if words and words[0] != "max" else []


def lines(path: Path) -> list[str]:
    """Of a file of the system's; none where it cannot be read."""
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
