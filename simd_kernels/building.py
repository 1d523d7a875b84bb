"""Building of many kernels by several processes at once: LLVM's optimiser takes one core a process.

A helper process is this interpreter once more.  It is told the search path, the tier and the names, and writes the
object code to its standard output; what a helper does not deliver is built here.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterable

from edgeinfer.simd_kernels import cpu

FEWEST = 6  # kernels a process is worth starting for: it takes as long to start as two or three take to build
MOST_PROCESSES = 8
HELPER = "import sys; sys.path[:] = sys.argv[1:]; from edgeinfer.simd_kernels import building; building.serve()"


def build(names: Iterable[str], tier: cpu.Tier) -> dict[str, bytes]:
    """Object code of kernels for `tier`, by name, built by as many processes as cores and kernels allow."""
    ordered = sorted(names, key=_heavy_first)
    count = max(1, min(_cores(), MOST_PROCESSES, len(ordered) // FEWEST))
    own, *others = (ordered[number::count] for number in range(count))
    helpers = [_Helper(share, tier) for share in others]
    try:
        built = build_here(own, tier)
        for helper in helpers:
            built |= helper.result() or build_here(helper.names, tier)
        return built
    finally:
        for helper in helpers:
            helper.end()


def build_here(names: Iterable[str], tier: cpu.Tier) -> dict[str, bytes]:
    """The same in this process; this alone needs LLVM's optimiser and the kernels' sources."""
    from edgeinfer.simd_kernels.compile import module_text, object_code, target_machine
    from edgeinfer.simd_kernels.kernels import table

    machine, kernels = target_machine(tier), table()

    def one(name: str) -> bytes:
        arguments, body = kernels[name]
        return object_code(module_text(name, arguments, body, tier), machine)

    return {name: one(name) for name in names}


def serve() -> None:
    """What a helper does."""
    order = json.load(sys.stdin)
    built = build_here(order["names"], cpu.tier(order["tier"]))
    with open(sys.stdout.fileno(), "w", closefd=False) as out:  # where Python is unbuffered, sys.stdout may lose a part
        json.dump({name: base64.b64encode(code).decode() for name, code in built.items()}, out)


class _Helper:
    """A process that builds `names`."""

    def __init__(self, names: list[str], tier: cpu.Tier) -> None:
        self.names = names
        self._process = _start()
        if self._process and self._process.stdin:
            try:
                json.dump({"names": names, "tier": tier.name}, self._process.stdin)
                self._process.stdin.close()
            except OSError:
                self.end()

    def result(self) -> dict[str, bytes]:
        """The object code, or nothing where the process failed."""
        if not self._process or not self._process.stdout:
            return {}
        answer = self._process.stdout.read()
        if self._process.wait():
            return {}
        try:
            return {name: base64.b64decode(code) for name, code in json.loads(answer).items()}
        except ValueError:  # cut short
            return {}

    def end(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()
            self._process = None


def _start() -> subprocess.Popen[str] | None:
    """A helper, or None where this process is no Python interpreter that could be started again, or none starts."""
    frozen = getattr(sys, "frozen", False) or not pathlib.Path(sys.executable or "").name.lower().startswith("python")
    if frozen:
        return None
    command = [sys.executable, "-c", HELPER, *sys.path]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    try:
        return subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=nowhere)
    except OSError:
        return None


def _cores() -> int:
    """Logical cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _heavy_first(name: str) -> tuple[bool, str]:
    """Attention takes ten times as long as the others, so that it is dealt out first."""
    return not name.startswith("attend"), name
