"""Rows that no logits are wanted of: a plan drops them before its output matrix, these ops as soon as they can."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from edgeinfer.op import Op, Value

MEETS_OTHERS = (
    *("embed", "marks", "positions", "segments", "rope", "temper", "attend", "store", "rate", "choose", "assign"),
    *("shift", "conv", "condense", "overlap", "ssm", "wkv", "delta"),
)


def early(ops: Sequence[Op]) -> list[Op]:
    """The ops with `outputs` right behind the last one that looks at other rows or at their numbers: of each value
    that is read from there on.

    Of the last layer a prompt then needs little more than its attention, llama.cpp's way too."""
    number = next((i for i, op in enumerate(ops) if op.kind == "outputs"), None)
    if number is None:
        return list(ops)
    start = 1 + max(i for i, op in enumerate(ops[:number]) if op.kind in MEETS_OTHERS)
    wanted, before = ops[number], {op.out.id for op in ops[:start]}
    rest = [op for op in ops[start:] if op is not wanted]
    read = {x.id: x for op in [*rest, wanted] for x in op.ins if x.id in before}
    free = max(op.out.id for op in ops) + 1
    renamed = {x.id: Value(free + i, x.width) for i, x in enumerate(read.values())}
    picked = [Op("outputs", renamed[x.id], (x,)) for x in read.values()]
    source = wanted.ins[0]
    renamed[wanted.out.id] = renamed.get(source.id, source)
    return [
        *ops[:start],
        *picked,
        *(dataclasses.replace(op, ins=tuple(renamed.get(x.id, x) for x in op.ins)) for op in rest),
    ]
