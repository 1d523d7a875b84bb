"""Building of many kernels by several processes at once: LLVM's optimiser takes one core a process.

A helper process is this interpreter once more.  It is told the search path, the tier and the names, and writes a line
for each kernel to its standard output; what a helper does not deliver is built here.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from queue import SimpleQueue

from edgeinfer.simd_kernels import cpu

FEWEST = 6  # kernels a process is worth starting for: it takes as long to start as two or three take to build
MOST_PROCESSES = 8
HELPER = "import sys; sys.path[:] = sys.argv[1:]; from edgeinfer.simd_kernels import building; building.serve()"


def build(names: Iterable[str], tier: cpu.Tier) -> Iterator[tuple[str, bytes]]:
    """Name and object code of each kernel for `tier` as it comes, by as many processes as cores and kernels allow."""
    ordered = sorted(names, key=_heavy_first)
    count = max(1, min(_cores(), MOST_PROCESSES, len(ordered) // FEWEST))
    own, *others = (ordered[number::count] for number in range(count))
    helpers = [_Helper(share, tier) for share in others]
    try:
        for kernel in build_here(own, tier):
            yield kernel
            for helper in helpers:
                yield from helper.built()
        for helper in helpers:
            yield from helper.built(wait=True)
            if helper.missing:
                yield from build_here(helper.missing, tier)
    except KeyboardInterrupt:  # that others have built some meanwhile need not be lost
        for helper in helpers:
            yield from helper.built()
        raise
    finally:
        for helper in helpers:
            helper.end()


def build_here(names: Iterable[str], tier: cpu.Tier) -> Iterator[tuple[str, bytes]]:
    """The same in this process; this alone needs LLVM's optimiser and the kernels' sources."""
    from edgeinfer.simd_kernels.compile import module_text, object_code, target_machine
    from edgeinfer.simd_kernels.kernels import table

    machine, kernels = target_machine(tier), table()
    for name in names:
        arguments, body = kernels[name]
        yield name, object_code(module_text(name, arguments, body, tier), machine)


def serve() -> None:
    """What a helper does."""
    order = json.load(sys.stdin)
    with open(sys.stdout.fileno(), "w", closefd=False) as out:  # where Python is unbuffered, sys.stdout may lose a part
        for name, code in build_here(order["names"], cpu.tier(order["tier"])):
            print(json.dumps([name, base64.b64encode(code).decode()]), file=out, flush=True)


class _Helper:
    """A process that builds `missing`, which become fewer as they come."""

    def __init__(self, names: list[str], tier: cpu.Tier) -> None:
        self.missing = names
        self._came: SimpleQueue[tuple[str, bytes] | None] = SimpleQueue()  # None: no more will come
        self._ended = False
        self._process = _start()
        self._reader = threading.Thread(target=self._read, daemon=True)
        if self._process and self._process.stdin:
            with contextlib.suppress(OSError):  # it has ended already
                json.dump({"names": names, "tier": tier.name}, self._process.stdin)
                self._process.stdin.close()
        try:
            self._reader.start()
        except RuntimeError:  # the system has no more threads to give
            self._came.put(None)

    def built(self, wait: bool = False) -> Iterator[tuple[str, bytes]]:
        """Name and object code of what has come since; with `wait` of all that will come."""
        while not self._ended and (wait or not self._came.empty()):
            kernel = self._came.get()
            if kernel is None:
                self._ended = True
            else:
                self.missing.remove(kernel[0])
                yield kernel

    def end(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            if self._reader.ident:
                self._reader.join()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    with contextlib.suppress(OSError):  # what it was told may still wait to be written
                        pipe.close()

    def _read(self) -> None:
        """Lines are read at once, as the process would wait for them to be."""
        try:
            for line in self._process.stdout or () if self._process else ():
                name, code = json.loads(line)
                self._came.put((name, base64.b64decode(code)))
        except ValueError:  # cut short
            pass
        finally:
            self._came.put(None)


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
