"""From plan to operation records: which kernel runs each op, where its values lie, where the workers wait.

What the kernels allow is fused here: q, k and v (or gate and up) read one quantised input and run without a barrier
between them, and operations that do each row on its own follow each other on the same worker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from edgeinfer.lowering.arithmetic import Arithmetic
from edgeinfer.lowering.attention import Attention
from edgeinfer.lowering.experts import Experts
from edgeinfer.lowering.layers import Layers
from edgeinfer.lowering.nodes import Boards, Buffer, Node
from edgeinfer.lowering.places import mark_chains, mark_waits, place
from edgeinfer.lowering.recurrence import Recurrence
from edgeinfer.rope import Rope
from edgeinfer.simd_kernels import record


@dataclasses.dataclass(frozen=True)
class Lowered:
    """Nodes in order, the strides of the memory slots their buffers share, and arrays that must outlive the records."""

    nodes: list[Node]
    slots: list[int]
    ropes: dict[Rope, str]
    keep: list[np.ndarray]


class Lowering(Layers, Arithmetic, Attention, Experts, Recurrence):
    """Turns ops into nodes, one method for each op kind."""

    def run(self) -> Lowered:
        for op in self.ops:
            getattr(self, op.kind)(op)
        final = self.values[self.ops[-1].out.id]
        final.root.logits = True
        slots = place(self.nodes)
        mark_waits(self.nodes)
        mark_chains(self.nodes)
        return Lowered(self.nodes, slots, self.ropes, self.keep)


def resolve(
    lowered: Lowered,
    kernels: Mapping[str, int],
    address: Callable[[Buffer], int],
    places: Mapping[str, int],
    counts: Mapping[str, int],
    counter: Callable[[], int],
    boards: Boards,
) -> np.ndarray:
    """The records, int64[nodes, OP_FIELDS]; `places`: addresses of tables by name, `counts`: of the counts of rows."""
    out = np.zeros((len(lowered.nodes), record.OP_FIELDS), np.int64)
    for row, node in zip(out, lowered.nodes, strict=True):
        fields = dict(node.fields)
        for name, buffer in {**node.reads, **node.writes}.items():
            if name:
                fields[name] = address(buffer)
                fields.setdefault(f"{name}_stride", buffer.root.stride)
        for name, helper in node.helpers.items():
            fields[name] = kernels[helper] if helper in kernels else places[helper]
        if node.counter:
            fields["counter"] = counter()
        head = {"wait": int(node.wait), "count": counts[node.rows], "chain": node.chain, **boards.of(node.parts)}
        numbers = node.record.write(kernel=kernels[node.kernel], **head, **fields)
        row[: len(numbers)] = numbers
    return out
