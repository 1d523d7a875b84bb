"""What is a fault: anything but a proper result or one clear `EdgeInferError`, and any lack of measure on the way.

A case may take 2 s of the processor's time and 300 MB, and may cause a few warnings meant for the user, but nothing
else on stderr.  More time, or a crash of native code, ends the process: `runner` knows then which case it was.
Linux only."""

from __future__ import annotations

import os
import pathlib
import resource
import signal
import traceback
import warnings
from collections.abc import Callable

from edgeinfer.errors import EdgeInferError

SECONDS = 2.0
BYTES = 300_000_000
_WARNINGS = 8  # that one case may cause
_LONGEST = 1000  # characters of an error
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ROOT = str(pathlib.Path(__file__).resolve().parents[2])
_PROC = {name: f"/proc/self/{name}" for name in ("statm", "status", "clear_refs")}


def fault(run: Callable[[bytes], None], case: bytes) -> tuple[str | None, bool]:
    """What is wrong with how `run` takes the case, None where nothing is, and whether it gave a result."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of the processor's time, so that a busy machine is no fault
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)  # as Python does
        try:
            run(case)
            found, result = None, True
        except EdgeInferError as error:
            found, result = _unclear(str(error)), False
        except BaseException as error:
            found, result = _described(error), False
    signal.setitimer(signal.ITIMER_PROF, 0)
    return found or _noise(told), result


def limit_memory() -> None:
    """From here on this process can have `BYTES` more than it has now; what goes beyond them fails."""
    with open(_PROC["clear_refs"], "wb") as file:
        file.write(b"5")  # the peak of resident memory counts from here
    with open(_PROC["statm"], "rb") as file:
        mapped = int(file.read().split()[0]) * _PAGE
    resource.setrlimit(resource.RLIMIT_AS, (mapped + BYTES, resource.RLIM_INFINITY))


def peak() -> int:
    """Bytes of resident memory at the peak since `limit_memory`, above what there are now."""
    with open(_PROC["status"], "rb") as file:
        lines = dict(line.split(b":", 1) for line in file.read().splitlines())
    return (int(lines[b"VmHWM"].split()[0]) - int(lines[b"VmRSS"].split()[0])) << 10


def _unclear(text: str) -> str | None:
    if "MemoryError" in text or "bad_alloc" in text or "RecursionError" in text:
        return f"hides the cause: {text[:300]}"
    if not text or len(text) > _LONGEST or not text.isprintable():
        return f"unclear error: {text[:300]!r}"
    return None


def _described(error: BaseException) -> str:
    """The exception and the innermost places it came through."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = " < ".join(f"{f.filename.removeprefix(_ROOT + '/')}:{f.lineno}" for f in reversed(frames))
    return f"{type(error).__name__}: {str(error)[:200]} at {places}"


def _noise(told: list[warnings.WarningMessage]) -> str | None:
    if len(told) > _WARNINGS:
        return f"{len(told)} warnings, the first: {told[0].message}"
    wrong = [w for w in told if w.category is not UserWarning or not str(w.message).isprintable()]
    return f"{wrong[0].category.__name__}: {wrong[0].message} at {wrong[0].filename}" if wrong else None
