"""Which ops the cpu backend has kernels for; the reference backend runs all."""

from __future__ import annotations

from edgeinfer.errors import UnsupportedError
from edgeinfer.plan import Plan

STATES = ("shift", "conv", "ssm", "wkv", "delta")  # what keeps a state from token to token
WITHOUT_KERNEL = (*STATES, "dot", "sparsify", "pick")


def check(plan: Plan) -> None:
    """UnsupportedError for the first op that has no kernel yet."""
    for op in plan.ops:
        if op.kind in WITHOUT_KERNEL:
            raise UnsupportedError(
                f"the cpu backend cannot run {plan.config.arch} yet: no kernel for {op.kind!r}; backend='reference' can"
            )
