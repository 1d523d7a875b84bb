"""Which forms of ops the cpu backend has kernels for; the reference backend runs all."""

from __future__ import annotations

import math

from edgeinfer.errors import UnsupportedError
from edgeinfer.op import Op
from edgeinfer.plan import Plan


def check(plan: Plan) -> None:
    """UnsupportedError for the first op, or form of one, that has no kernel yet."""
    for op in plan.ops:
        if not _has_kernel(op, plan):
            raise UnsupportedError(
                f"the cpu backend cannot run {plan.config.arch} yet: no kernel for this form of {op.kind!r}; "
                "backend='reference' can"
            )


def _has_kernel(op: Op, plan: Plan) -> bool:
    attrs = op.attrs
    if op.kind == "norm":
        return bool(op.weights) and math.prod(plan.tensors[op.weights[0]].shape) == attrs["size"]
    if op.kind == "split":
        return bool(attrs["size"] == op.ins[0].width)
    if op.kind == "rope":
        return not attrs["start"]
    if op.kind == "attend":
        return len(op.ins) == 3 and not (op.weights or attrs["cap"] or attrs["slopes"] or attrs["chunk"])
    if op.kind == "gated":
        return attrs["act"] in ("silu", "gelu")
    return op.kind in ("embed", "linear", "add", "outputs", "softcap")
