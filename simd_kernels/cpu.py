"""What this CPU can do and which tier of kernels that means.

A tier is a fixed set of instructions, so that a kernel built on one machine runs on every other of the same tier.  It
is chosen by the features the host reports, never by the CPU's name: one instruction the host lacks ends the whole
process.  `EDGEINFER_ISA` caps it.
"""

import ctypes
import os
import platform
import sys
import sysconfig
from dataclasses import dataclass
from functools import lru_cache

from edgeinfer.errors import RequestError, UnsupportedError


@dataclass(frozen=True)
class Tier:
    """An instruction set and the shape of the matrix-multiply tile that fits its registers."""

    name: str
    machine: str  # as `machine()` has it, "" for any
    cpu: str  # LLVM's name of the baseline
    features: tuple[str, ...]  # on top of the baseline; all must be present on the host
    needs: tuple[str, ...]  # the baseline's own features, as the host reports them
    lanes: int  # float lanes of the widest register
    tile_rows: int  # weight rows a panel holds, a multiple of `lanes`
    tile_tokens: int  # tokens a register tile holds
    panels: int = 1  # that a tile of activations passes one after the other, from the first cache
    held_tokens: int = 4  # of a tile, whose sums registers hold while they go over columns
    registers: int = 32  # for vectors
    tune: str = "generic"  # LLVM's name of the CPU whose schedule is followed: by some, tiles run out of registers

    @property
    def panel_rows(self) -> int:
        """Weight rows of all panels that are unpacked at a time."""
        return self.tile_rows * self.panels


AVX2 = ("avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe", "popcnt", "sse4.2")
AVX512 = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
DOTPROD = ("dotprod", "lse")
CYCLONE = (
    "apple-a7"  # what every aarch64 has, scheduled so that tiles fit the registers: by LLVM's other models they do not
)
TIERS = (
    Tier(
        "avx512vnni",
        "x86_64",
        "x86-64-v4",
        ("avx512vnni",),
        AVX2 + AVX512,
        lanes=16,
        tile_rows=48,
        tile_tokens=4,
        tune="sapphirerapids",
    ),
    Tier(
        "avxvnni",
        "x86_64",
        "x86-64-v3",
        ("avxvnni",),
        AVX2,
        lanes=8,
        tile_rows=16,
        tile_tokens=6,
        held_tokens=3,
        panels=2,
        registers=16,
        tune="sapphirerapids",
    ),
    Tier(
        "avx2",
        "x86_64",
        "x86-64-v3",
        (),
        AVX2,
        lanes=8,
        tile_rows=16,
        tile_tokens=4,
        panels=2,
        held_tokens=0,
        registers=16,
        tune="sapphirerapids",
    ),
    Tier("i8mm", "aarch64", CYCLONE, ("i8mm", *DOTPROD), (), lanes=4, tile_rows=12, tile_tokens=4, tune=CYCLONE),
    Tier(
        "dotprod", "aarch64", CYCLONE, DOTPROD, (), lanes=4, tile_rows=12, tile_tokens=4, tune=CYCLONE
    ),  # Raspberry Pi 5
    Tier(
        "neon", "aarch64", CYCLONE, (), (), lanes=4, tile_rows=8, tile_tokens=4, tune=CYCLONE
    ),  # every aarch64, as Raspberry Pi 4
    Tier("portable", "", "generic", (), (), lanes=4, tile_rows=8, tile_tokens=2, held_tokens=2),
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


def machine() -> str:
    """The architecture this process runs on, in LLVM's spelling.  On Windows that may be one the machine emulates."""
    name = sysconfig.get_platform().rpartition("-")[2] if os.name == "nt" else platform.machine()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def triple(tier: Tier) -> str:
    """The platform LLVM compiles a tier for: this one, or Linux on the tier's machine where that is another."""
    import llvmlite.binding as llvm

    own: str = llvm.get_default_triple()
    return own if tier.machine in ("", machine()) else f"{tier.machine}-unknown-linux-gnu"


def object_format(tier: Tier) -> str:
    """The kind of object file and of machine that `triple(tier)` stands for; vendors' names make no difference."""
    words = triple(tier).split("-")
    kind = "macho" if {"apple"} & set(words) else "coff" if "windows" in words else "elf"
    return f"{words[0].replace('arm64', 'aarch64')}-{kind}"


# Names people know CPUs by -> the tier that runs on them, for `edgeinfer kernels build --cpu`.
CPUS = {
    "haswell": "avx2",
    "skylake": "avx2",
    "zen2": "avx2",
    "zen3": "avx2",
    "alderlake": "avxvnni",
    "raptorlake": "avxvnni",
    "icelake": "avx512vnni",
    "sapphirerapids": "avx512vnni",
    "zen4": "avx512vnni",
    "zen5": "avx512vnni",
    "pi3": "neon",
    "pi4": "neon",
    "cortex-a53": "neon",
    "cortex-a72": "neon",
    "pi5": "dotprod",
    "cortex-a76": "dotprod",
    "neoverse-n1": "dotprod",
    "neoverse-v1": "i8mm",
    "neoverse-n2": "i8mm",
}


def named(name: str) -> Tier:
    """The tier for a CPU, by a tier's own name or one of CPUS; RequestError for another word."""
    word = CPUS.get(name.lower(), name.lower())
    if word not in NAMES:
        raise RequestError(f"no CPU {name!r} is known; there are {', '.join([*NAMES, *CPUS])}")
    return tier(word)


def host_features() -> frozenset[str]:
    """Names of the features this CPU and its operating system offer, in LLVM's spelling."""
    if machine() == "aarch64":
        return arm_features()
    import llvmlite.binding as llvm

    try:
        return frozenset(name for name, present in llvm.get_host_cpu_features().items() if present)
    except RuntimeError:  # LLVM cannot tell on this platform
        return frozenset()


# Where the system says what an ARM core has: Linux's auxiliary vector (entry, bit; asm/hwcap.h), Apple's sysctl and
# Windows' IsProcessorFeaturePresent (PF_ARM_V81_ATOMIC, V82_DP and V82_I8MM_INSTRUCTIONS_AVAILABLE).
HWCAPS = {"lse": (16, 8), "dotprod": (16, 20), "i8mm": (26, 13)}
SYSCTLS = {"lse": "FEAT_LSE", "dotprod": "FEAT_DotProd", "i8mm": "FEAT_I8MM"}
PROCESSOR_FEATURES = {"lse": 34, "dotprod": 43, "i8mm": 66}


def arm_features() -> frozenset[str]:
    """Those of an ARM core that tiers ask for.  LLVM knows few of them: it reads the core's name in /proc/cpuinfo."""
    if os.name == "nt":
        present = ctypes.CDLL("kernel32").IsProcessorFeaturePresent
        return frozenset(name for name, number in PROCESSOR_FEATURES.items() if present(number))
    libc = ctypes.CDLL(None)
    if hasattr(libc, "getauxval"):
        libc.getauxval.restype, libc.getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
        return frozenset(name for name, (entry, bit) in HWCAPS.items() if libc.getauxval(entry) >> bit & 1)
    return frozenset(name for name, key in SYSCTLS.items() if _sysctl(libc, f"hw.optional.arm.{key}"))


def _sysctl(libc: ctypes.CDLL, key: str) -> int:
    """The number of that name, 0 where there is none."""
    value, size = ctypes.c_int(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
    failed = libc.sysctlbyname(key.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return 0 if failed else value.value


def missing(candidate: Tier, features: frozenset[str]) -> str:
    """Why `candidate` cannot run here, or "" when it can."""
    if candidate.machine not in ("", machine()):
        return f"this machine is {machine()}"
    absent = [name for name in candidate.needs + candidate.features if name not in features]
    return f"the CPU lacks {', '.join(absent)}" if absent else ""


@lru_cache(maxsize=1)
def host() -> Host:
    """The best tier this CPU runs, or the one `EDGEINFER_ISA` caps it to.

    Raises RequestError when EDGEINFER_ISA names an unknown tier or one this CPU cannot run, UnsupportedError in a
    process of 32 bits, whatever the machine has."""
    if sys.maxsize < 2**32:
        raise UnsupportedError("edgeinfer needs a Python of 64 bits, this one has 32")
    features = host_features()
    cap = os.environ.get("EDGEINFER_ISA", "")
    if cap:
        wanted = tier(cap)
        why = missing(wanted, features)
        if why:
            raise RequestError(f"EDGEINFER_ISA={cap}: {why}")
        return Host(wanted, "set by EDGEINFER_ISA", tuple(sorted(features)))
    notes: list[str] = []
    for candidate in (t for t in TIERS if t.machine in ("", machine())):
        why = missing(candidate, features)
        if not why:
            reason = "the best this CPU runs" + (f" ({'; '.join(notes)})" if notes else "")
            return Host(candidate, reason, tuple(sorted(features)))
        notes.append(f"not {candidate.name}: {why}")
    raise AssertionError("the portable tier runs anywhere")
