"""Op kinds of a mixture of experts."""

from __future__ import annotations

import numpy as np

from edgeinfer.lowering.nodes import Buffer, Nodes
from edgeinfer.plan import Op
from edgeinfer.simd_kernels import layout, record


class Experts(Nodes):
    """A method for each op kind."""

    def route(self, op: Op) -> None:
        a, experts = op.attrs, op.ins[0].width
        bias = (
            np.ascontiguousarray(self.plan.tensors[op.weights[0]].float32())
            if op.weights
            else np.zeros(experts, np.float32)
        )
        names = ("used", "groups", "groups_used")
        fields = {
            "experts": experts,
            "bias": self.address(bias),
            "normalise": int(a["normalise"]),
            "factor_f32": a["scale"],
        }
        kernel, reads = f"route.{a['gate']}", {"x": self.value(op, 0)}
        self.emit(op, kernel, record.ROUTE, {**fields, **{n: a[n] for n in names}}, reads, alone=False)  # uses scratch

    def assign(self, op: Op) -> None:
        a, table = op.attrs, self.address(np.ascontiguousarray(self.plan.tensors[op.weights[0]].data))
        sizes = {"experts": op.ins[0].width, "used": a["used"], "normalise": int(a["normalise"])}
        fields = {"table": table, "factor_f32": a["scale"], **sizes}
        self.emit(op, f"assign.{a['gate']}", record.ASSIGN, fields, {"x": self.value(op, 0)}, alone=False)  # scratch

    def expert_linear(self, op: Op) -> None:
        tensor, used = self.plan.tensors[op.weights[0]], op.attrs["used"]
        experts, width, cols = tensor.shape
        parts = used if op.attrs["each"] else 1
        x, part = self.value(op, 0), 4 * cols
        if tensor.type.name not in layout.FLOATS:
            part = layout.activation_bytes(cols)
            out = Buffer(part * parts)
            self.append(
                "quantise.rows", record.QUANTISE, {"width": cols, "groups": parts, "out_stride": part}, {"x": x}, out
            )
            x = out
        row_bytes = tensor.type.row_bytes(cols)
        fields = {
            "x_part": part if parts > 1 else 0,
            "w": self.address(tensor.data),
            "row_bytes": row_bytes,
            "expert_bytes": row_bytes * width,
            "rows": width,
            "cols": cols,
            "bias": self.floats(op.weights[1]) if len(op.weights) > 1 else 0,
            "used": used,
            "experts": experts,
            "chunk": self.chunk(width, row_bytes),
        }
        reads = {"x": x, "y": self.value(op, 1)}
        helpers = {name: f"{name}.{tensor.type.name}" for name in ("dot", "few")}
        kernel = f"expert_linear.{'float' if tensor.type.name in layout.FLOATS else 'quantised'}"
        self.emit(op, kernel, record.EXPERT_LINEAR, fields, reads, helpers, alone=False)

    def pick(self, op: Op) -> None:
        self.look_up(op, self.floats(op.weights[0]))

    def group(self, op: Op) -> None:
        self.look_up(op, self.address((np.arange(op.attrs["experts"]) // op.attrs["size"]).astype(np.float32)))

    def look_up(self, op: Op, table: int) -> None:
        fields = {"width": op.out.width, "y": table, "y_stride": 0}
        self.emit(op, "pick", record.ELEMENTWISE, fields, {"x": self.value(op, 0)})

    def mix(self, op: Op) -> None:
        parts = op.attrs["parts"]
        fields = {"size": op.ins[0].width // parts, "groups": parts, "sums": op.ins[1].width // parts}
        self.emit(op, "mix", record.MIX, fields, {"x": self.value(op, 0), "y": self.value(op, 1)})
