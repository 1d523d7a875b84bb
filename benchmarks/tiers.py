"""Kernels of a tier this CPU has, or of avxvnni where it has those instructions in AVX-512's encoding only."""

import dataclasses
from collections.abc import Iterable

from edgeinfer.models import catalog
from edgeinfer.simd_kernels import building, cpu, pack

KEPT: list[pack.Linked] = []  # code lives as long as the process


def linked(name: str, kernels: Iterable[str]) -> tuple[cpu.Tier, dict[str, int]]:
    """The tier, and where its kernels are."""
    tier = cpu.tier(name)
    if name != "avxvnni" or not cpu.missing(tier, cpu.host_features()):
        return tier, pack.load(set(kernels), tier, catalog.home() / "kernels")
    tier = dataclasses.replace(tier, cpu="x86-64-v4", features=("avx512vnni",), needs=cpu.AVX2 + cpu.AVX512)
    own = pack.Linked(tier)
    own.link(dict(building.build_here(sorted(kernels), tier)))
    KEPT.append(own)
    return tier, own.addresses
