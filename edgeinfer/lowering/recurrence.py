"""Op kinds that remember."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgeinfer import state
from edgeinfer.lowering.nodes import Nodes
from edgeinfer.plan import Op
from edgeinfer.simd_kernels import record
from edgeinfer.simd_kernels.layout import LANES, up

CLAIMS = 4  # of each worker


class Recurrence(Nodes):
    """A method for each op kind."""

    def shift(self, op: Op) -> None:
        self.recur(op, "shift", record.SHIFT, ("x",), {})

    def conv(self, op: Op) -> None:
        _, depth = state.shape(op)
        w = np.zeros((op.out.width, depth + 1), np.float32)
        w[:, depth + 1 - op.attrs["kernel"] :] = self.plan.tensors[op.weights[0]].float32().reshape(op.out.width, -1)
        bias = np.zeros(op.out.width, np.float32)
        if len(op.weights) > 1:
            bias = self.plan.tensors[op.weights[1]].float32()
        fields = {"w": self.address(blocks(w[None])), "bias": self.address(blocks(bias[None, :, None]))}
        self.recur(op, "conv", record.CONV, ("x",), fields)

    def condense(self, op: Op) -> None:
        places = self.plan.tensors[op.weights[0]].float32().T
        fields = {"places": self.address(blocks(places[None])), "span": op.attrs["count"]}
        self.recur(op, "condense", record.CONDENSE, ("x", "gate"), fields)

    def overlap(self, op: Op) -> None:
        places = self.plan.tensors[op.weights[0]].float32().T.reshape(2, op.out.width, -1)
        fields = {"places": self.address(blocks(places)), "span": op.attrs["count"]}
        self.recur(op, "overlap", record.CONDENSE, ("x", "gate"), fields)

    def ssm(self, op: Op) -> None:
        """Where heads have one column each, all heads of a group are computed together."""
        heads, groups = op.attrs["heads"], op.attrs["groups"]
        a, d = (self.plan.tensors[name].float32().reshape(heads, -1) for name in op.weights)
        narrow = heads == op.out.width
        if narrow:
            a = np.broadcast_to(a, (heads, op.attrs["state"]))
            a, d = (blocks(x.reshape(groups, heads // groups, -1)) for x in (a, d))
        fields = {"a": self.address(a), "d": self.address(d), "share": 1 if narrow else heads // groups}
        kernel = "ssm.narrow" if narrow else "ssm.wide" if a.shape[1] == 1 else "ssm.wide.each"
        self.recur(op, kernel, record.SSM, ("x", "dt", "b", "c"), fields)

    def wkv(self, op: Op) -> None:
        self.recur(op, "wkv", record.WKV, "rkvw", {"bonus": self.floats(op.weights[0])})

    def delta(self, op: Op) -> None:
        self.recur(op, "delta", record.DELTA, "qkvwab", {})

    def recur(
        self, op: Op, kernel: str, form: record.Record, ins: str | tuple[str, ...], fields: Mapping[str, int]
    ) -> None:
        """A node with a state; `ins` are the fields of the op's inputs."""
        units, depth = state.shape(op)
        size = op.out.width // units
        count = units * up(size, LANES) // LANES
        shares = {
            "state": self.states[op.out.id],
            "chunk": -(-count // (CLAIMS * self.threads)),
            "units": units,
            "size": size,
            "depth": depth,
        }
        reads = {name: self.value(op, index) for index, name in enumerate(ins)}
        self.emit(op, kernel, form, {**shares, **fields}, reads, alone=False)


def blocks(x: np.ndarray) -> np.ndarray:
    """f32[units, columns, depth] as f32[units, blocks, depth, 16], filled up with zeros."""
    units, columns, depth = x.shape
    out = np.zeros((units, up(columns, LANES), depth), np.float32)
    out[:, :columns] = x
    return np.ascontiguousarray(out.reshape(units, -1, LANES, depth).transpose(0, 1, 3, 2))
