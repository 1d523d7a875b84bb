"""Choosing a tier: by what the host reports, capped by EDGEINFER_ISA."""

import platform

import pytest

from edgeinfer.errors import RequestError
from edgeinfer.simd_kernels import cpu

ALL = frozenset(cpu.AVX2 + cpu.AVX512 + ("avx512vnni",))


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
    assert chosen(ALL, "AMD64").tier.name == "avx512vnni"  # Windows' word for it
    assert chosen(ALL - {"avx512vnni"}).tier.name == "avx2"
    assert chosen(cpu.AVX2).tier.name == "avx2"
    assert chosen(()).tier.name == "portable"


@pytest.mark.parametrize("lacking", ["f16c", "fma", "avx512bw", "avx512vl"])
def test_one_missing_feature_is_enough(chosen, lacking):
    host = chosen(ALL - {lacking})
    assert host.tier.name == ("avx2" if lacking.startswith("avx512") else "portable")
    assert f"the CPU lacks {lacking}" in host.reason


def test_another_machine_gets_the_portable_tier(chosen):
    host = chosen({"neon", "dotprod"}, "aarch64")
    assert host.tier.name == "portable" and "not avx2: this machine is aarch64" in host.reason
    assert host.features == ("dotprod", "neon")


@pytest.mark.parametrize("cap", cpu.NAMES)
def test_a_cap_is_obeyed(chosen, cap):
    host = chosen(ALL, cap=cap)
    assert (host.tier.name, host.reason) == (cap, "set by EDGEINFER_ISA")


def test_an_empty_cap_is_none(chosen):
    assert chosen(ALL, cap="").tier.name == "avx512vnni"


def test_a_cap_beyond_the_host_is_an_error(chosen):
    with pytest.raises(RequestError, match="^EDGEINFER_ISA=avx512vnni: the CPU lacks avx512f, avx512bw"):
        chosen(cpu.AVX2, cap="avx512vnni")
    with pytest.raises(RequestError, match="^EDGEINFER_ISA=avx2: this machine is aarch64$"):
        chosen(ALL, "aarch64", cap="avx2")


@pytest.mark.parametrize("cap", ["avx9", "AVX2", " "])
def test_an_unknown_cap_is_an_error(chosen, cap):
    with pytest.raises(RequestError, match=f"EDGEINFER_ISA='{cap}' is no instruction set .* avx512vnni, avx2, portable"):
        chosen(ALL, cap=cap)


def test_tiles_fit_the_kernels():
    for tier in cpu.TIERS:
        assert tier.tile_rows % tier.lanes == 0 and tier.tile_rows * tier.tile_tokens % 16 == 0
    assert cpu.missing(cpu.TIERS[-1], frozenset()) == ""


def test_this_host_reports_its_features():
    features = cpu.host_features()
    assert platform.machine() not in cpu.X86 or "sse2" in features
