"""Choosing a tier: by what the host reports, capped by EDGEINFER_ISA."""

import os
import platform
import sys
from types import SimpleNamespace

import pytest

from edgeinfer.errors import RequestError, UnsupportedError
from edgeinfer.simd_kernels import cpu

ALL = frozenset(cpu.AVX2 + cpu.AVX512 + ("avx512vnni", "avxvnni"))
ARM = frozenset(cpu.HWCAPS)


@pytest.fixture
def chosen(monkeypatch):
    """A function: the host's choice with these features on this machine, EDGEINFER_ISA being `cap`."""

    def choose(features, machine="x86_64", cap=None):
        monkeypatch.setattr(cpu, "host_features", lambda: frozenset(features))
        monkeypatch.setattr(platform, "machine", lambda: machine)
        monkeypatch.delenv("EDGEINFER_ISA", raising=False)
        if cap is not None:
            monkeypatch.setenv("EDGEINFER_ISA", cap)
        cpu.host.cache_clear()
        return cpu.host()

    yield choose
    cpu.host.cache_clear()


def test_the_best_tier_whose_features_are_all_there(chosen):
    assert chosen(ALL).tier.name == "avx512vnni"
    assert chosen(ALL, "amd64").tier.name == "avx512vnni"  # FreeBSD's word for it
    assert chosen(ALL - {"avx512vnni"}).tier.name == "avxvnni"
    assert chosen(ALL - {"avx512vnni", "avxvnni"}).tier.name == "avx2"
    assert chosen(cpu.AVX2).tier.name == "avx2"
    assert chosen(()).tier.name == "portable"


@pytest.mark.parametrize("machine", ["aarch64", "arm64"])  # as Linux and macOS say it
def test_the_best_arm_tier(chosen, machine):
    assert chosen(ARM, machine).tier.name == "i8mm"
    assert chosen({"dotprod", "lse"}, machine).tier.name == "dotprod"
    assert chosen({"dotprod"}, machine).tier.name == "neon"
    assert chosen((), machine).tier.name == "neon"


@pytest.mark.parametrize("lacking", ["f16c", "fma", "avx512bw", "avx512vl"])
def test_one_missing_feature_is_enough(chosen, lacking):
    host = chosen(ALL - {lacking})
    assert host.tier.name == ("avxvnni" if lacking.startswith("avx512") else "portable")
    assert f"the CPU lacks {lacking}" in host.reason


def test_the_reason_names_tiers_of_this_machine_only(chosen):
    host = chosen({"lse"}, "aarch64")
    notes = "not i8mm: the CPU lacks i8mm, dotprod; not dotprod: the CPU lacks dotprod"
    assert host.reason == f"the best this CPU runs ({notes})"
    assert host.features == ("lse",)


def test_another_machine_gets_the_portable_tier(chosen):
    host = chosen({"v"}, "riscv64")
    assert (host.tier.name, host.reason) == ("portable", "the best this CPU runs")


@pytest.mark.parametrize("cap", cpu.NAMES)
def test_a_cap_is_obeyed(chosen, cap):
    host = chosen(ALL | ARM, cpu.tier(cap).machine, cap)
    assert (host.tier.name, host.reason) == (cap, "set by EDGEINFER_ISA")


def test_an_empty_cap_is_none(chosen):
    assert chosen(ALL, cap="").tier.name == "avx512vnni"


def test_a_cap_beyond_the_host_is_an_error(chosen):
    with pytest.raises(RequestError, match="^EDGEINFER_ISA=avx512vnni: the CPU lacks avx512f, avx512bw"):
        chosen(cpu.AVX2, cap="avx512vnni")
    with pytest.raises(RequestError, match="^EDGEINFER_ISA=avx2: this machine is aarch64$"):
        chosen(ALL, "aarch64", cap="avx2")
    with pytest.raises(RequestError, match="^EDGEINFER_ISA=i8mm: the CPU lacks i8mm$"):
        chosen({"dotprod", "lse"}, "aarch64", cap="i8mm")


@pytest.mark.parametrize("cap", ["avx9", "AVX2", " "])
def test_an_unknown_cap_is_an_error(chosen, cap):
    names = "avx512vnni, avxvnni, avx2, i8mm, dotprod, neon, portable"
    with pytest.raises(RequestError, match=f"EDGEINFER_ISA='{cap}' is no instruction set .* {names}"):
        chosen(ALL, cap=cap)


def test_tiles_fit_the_kernels():
    for tier in cpu.TIERS:
        assert tier.tile_rows % tier.lanes == 0 and tier.tile_rows * tier.tile_tokens % 16 == 0
    assert cpu.missing(cpu.TIERS[-1], frozenset()) == ""


def test_this_host_reports_its_features():
    features = cpu.host_features()
    assert cpu.machine() != "x86_64" or "sse2" in features
    assert cpu.machine() != "aarch64" or features <= ARM


@pytest.mark.skipif(sys.platform != "linux" or cpu.machine() != "aarch64", reason="needs Linux on an ARM core")
def test_an_arm_core_has_what_the_kernel_lists():
    """The same bits by name.  Under emulation /proc/cpuinfo is the host's and lists nothing of the kind."""
    with open("/proc/cpuinfo") as file:
        listed = next((set(line.split()) for line in file if line.startswith("Features")), None)
    if listed is None:
        pytest.skip("/proc/cpuinfo is that of another machine")
    names = {"lse": "atomics", "dotprod": "asimddp", "i8mm": "i8mm"}
    assert cpu.arm_features() == {feature for feature, name in names.items() if name in listed}


@pytest.fixture
def library(monkeypatch):
    """A function that puts these functions in the C library's place."""

    def put(**functions):
        monkeypatch.setattr(cpu.ctypes, "CDLL", lambda name: SimpleNamespace(**functions))

    return put


def test_features_from_linux_auxiliary_vector(library):
    entries = {16: 1 << 20 | 1 << 8, 26: 0}  # those of a Cortex-A76
    library(getauxval=lambda entry: entries[entry])
    assert cpu.arm_features() == {"dotprod", "lse"}
    entries[26] = 1 << 13
    assert cpu.arm_features() == ARM
    entries.update({16: 0b10, 26: 0})
    assert cpu.arm_features() == frozenset()


def test_features_from_apples_sysctl(library):
    there = {b"hw.optional.arm.FEAT_DotProd": 1, b"hw.optional.arm.FEAT_LSE": 1, b"hw.optional.arm.FEAT_I8MM": 0}

    def sysctlbyname(name, value, size, new, new_size):
        value._obj.value = there.get(name, 0)
        return 0 if name in there else -1

    library(sysctlbyname=sysctlbyname)
    assert cpu.arm_features() == {"dotprod", "lse"}
    there[b"hw.optional.arm.FEAT_I8MM"] = 1
    assert cpu.arm_features() == ARM
    del there[b"hw.optional.arm.FEAT_DotProd"]  # a system too old to know the name
    assert cpu.arm_features() == {"i8mm", "lse"}


def test_features_from_windows(library, monkeypatch):
    there = {34, 43}
    library(IsProcessorFeaturePresent=lambda number: number in there)
    monkeypatch.setattr(os, "name", "nt")
    assert cpu.arm_features() == {"dotprod", "lse"}
    there.add(66)
    assert cpu.arm_features() == ARM
    there.clear()  # a system too old to know the numbers
    assert cpu.arm_features() == frozenset()


@pytest.mark.parametrize("name, machine", [("win-amd64", "x86_64"), ("win-arm64", "aarch64"), ("win32", "win32")])
def test_windows_names_the_processor_and_not_what_it_emulates(monkeypatch, name, machine):
    monkeypatch.setattr(platform, "machine", lambda: "ARM64")
    monkeypatch.setattr(cpu.sysconfig, "get_platform", lambda: name)
    monkeypatch.setattr(os, "name", "nt")
    assert cpu.machine() == machine


def test_a_process_of_32_bits_is_refused(chosen, monkeypatch):
    """Its kernel may be one of 64 bits and say so: that of a Raspberry Pi's smaller system does."""
    monkeypatch.setattr(sys, "maxsize", 2**31 - 1)
    with pytest.raises(UnsupportedError, match="^edgeinfer needs a Python of 64 bits, this one has 32$"):
        chosen(ARM, "aarch64")


def test_tiers_are_compiled_for_this_system_or_for_linux():
    import llvmlite.binding as llvm

    for tier in cpu.TIERS:
        own = tier.machine in ("", cpu.machine())
        assert cpu.triple(tier) == (llvm.get_default_triple() if own else f"{tier.machine}-unknown-linux-gnu")
