"""What this CPU can do and which tier of kernels that means.

A tier is a fixed set of instructions, so that a kernel built on one machine runs on every other of the same tier.  It is chosen by
the features the host reports, never by the CPU's name: one instruction the host lacks ends the whole process.  `EDGEINFER_ISA` caps it.
"""

import os
import platform
from dataclasses import dataclass
from functools import lru_cache

from edgeinfer.errors import RequestError


@dataclass(frozen=True)
class Tier:
    """An instruction set and the shape of the matrix-multiply tile that fits its registers."""

    name: str
    machine: str  # what `platform.machine()` says, "" for any
    cpu: str  # LLVM's name of the baseline
    features: tuple[str, ...]  # on top of the baseline; all must be present on the host
    needs: tuple[str, ...]  # the baseline's own features, as the host reports them
    lanes: int  # float lanes of the widest register
    tile_rows: int  # weight rows a panel holds, a multiple of `lanes`
    tile_tokens: int  # tokens a register tile holds


X86 = ("x86_64", "AMD64")
AVX2 = ("avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe", "popcnt", "sse4.2")
AVX512 = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
TIERS = (
    Tier("avx512vnni", "x86_64", "x86-64-v4", ("avx512vnni",), AVX2 + AVX512, lanes=16, tile_rows=32, tile_tokens=6),
    Tier("avx2", "x86_64", "x86-64-v3", (), AVX2, lanes=8, tile_rows=8, tile_tokens=4),
    # The place of the NEON tiers (aarch64): until they are written, the portable one serves there.
    Tier("portable", "", "generic", (), (), lanes=4, tile_rows=8, tile_tokens=2),
)
NAMES = tuple(tier.name for tier in TIERS)


def tier(name: str) -> Tier:
    """The tier of that name; RequestError for another word."""
    for candidate in TIERS:
        if candidate.name == name:
            return candidate
    raise RequestError(f"EDGEINFER_ISA={name!r} is no instruction set edgeinfer knows; there are {', '.join(NAMES)}")


@dataclass(frozen=True)
class Host:
    """The tier in use, why, and the features the host reports."""

    tier: Tier
    reason: str
    features: tuple[str, ...]


def host_features() -> frozenset[str]:
    """Names of the features this CPU and its operating system offer, in LLVM's spelling."""
    import llvmlite.binding as llvm

    try:
        return frozenset(name for name, present in llvm.get_host_cpu_features().items() if present)
    except RuntimeError:  # LLVM cannot tell on this platform
        return frozenset()


def missing(candidate: Tier, features: frozenset[str]) -> str:
    """Why `candidate` cannot run here, or "" when it can."""
    machine = "x86_64" if platform.machine() in X86 else platform.machine()
    if candidate.machine and candidate.machine != machine:
        return f"this machine is {machine}"
    absent = [name for name in candidate.needs + candidate.features if name not in features]
    return f"the CPU lacks {', '.join(absent)}" if absent else ""


@lru_cache(maxsize=1)
def host() -> Host:
    """The best tier this CPU runs, or the one `EDGEINFER_ISA` caps it to.

    Raises RequestError when EDGEINFER_ISA names an unknown tier or one this CPU cannot run."""
    features = host_features()
    cap = os.environ.get("EDGEINFER_ISA", "")
    if cap:
        wanted = tier(cap)
        why = missing(wanted, features)
        if why:
            raise RequestError(f"EDGEINFER_ISA={cap}: {why}")
        return Host(wanted, "set by EDGEINFER_ISA", tuple(sorted(features)))
    notes = []
    for candidate in TIERS:
        why = missing(candidate, features)
        if not why:
            reason = "the best this CPU runs" + (f" ({'; '.join(notes)})" if notes else "")
            return Host(candidate, reason, tuple(sorted(features)))
        notes.append(f"not {candidate.name}: {why}")
    raise AssertionError("the portable tier runs anywhere")
