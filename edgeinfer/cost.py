"""What a token costs: bytes of weights and KV read, products multiplied.  The limits of speed follow from these."""

import math

from edgeinfer import memory
from edgeinfer.lowering.outputs import early
from edgeinfer.op import Op
from edgeinfer.plan import Plan

ROWS = ("embed", "positions", "segments", "assign")  # one row of the table for a token


def weight_bytes(plan: Plan) -> int:
    """Bytes of weights read for one token: all matrices once, of experts the chosen ones, of tables one row."""
    return round(sum(_share(plan, op, name) * plan.tensors[name].nbytes for op in plan.ops for name in op.weights))


def kv_bytes(plan: Plan, kv_type: str, tokens: float) -> int:
    """Bytes of KV a token reads that stands behind so many others, a whole window at most."""
    return memory.kv_bytes(plan, kv_type, max(1, int(tokens)), 1)


def products(plan: Plan, tokens: int) -> float:
    """Multiplications of linear layers for each token of a prompt; those behind the last attention run once for all
    of them."""
    total, rows = 0.0, 1.0
    for op in early(plan.ops):
        rows = 1 / tokens if op.kind == "outputs" else rows
        if op.kind.endswith("linear"):
            total += _share(plan, op, op.weights[0]) * _elements(plan, op) * rows
    return total


def _share(plan: Plan, op: Op, name: str) -> float:
    """The part of a tensor that one token needs."""
    shape = plan.tensors[name].shape
    if op.kind in ROWS:
        return 1 / shape[0]
    return op.attrs["used"] / shape[0] if op.kind == "expert_linear" else 1.0


def _elements(plan: Plan, op: Op) -> int:
    return math.prod(plan.tensors[op.weights[0]].shape)
