"""Op kinds that compute number by number or move numbers."""

from __future__ import annotations

import numpy as np

from edgeinfer.lowering.nodes import Buffer, Nodes
from edgeinfer.plan import Op
from edgeinfer.simd_kernels import record


class Arithmetic(Nodes):
    """A method for each op kind."""

    def gated(self, op: Op) -> None:
        self.elementwise(op, f"gated.{op.attrs['act']}")

    def add(self, op: Op) -> None:
        self.elementwise(op, "add")

    def mul(self, op: Op) -> None:
        groups = op.ins[1].width
        if groups == op.out.width:
            self.elementwise(op, "mul")
        else:
            fields = {"size": op.out.width // groups, "groups": groups}
            self.emit(op, "mul.groups", record.GROUPED, fields, {"x": self.value(op, 0), "y": self.value(op, 1)})

    def dot(self, op: Op) -> None:
        fields = {"size": op.ins[0].width // op.out.width, "groups": op.out.width}
        self.emit(op, "dot", record.GROUPED, fields, {"x": self.value(op, 0), "y": self.value(op, 1)})

    def elementwise(self, op: Op, kernel: str) -> None:
        self.in_place(op, kernel, record.ELEMENTWISE, {})

    def plus(self, op: Op) -> None:
        self.vector(op, "add", self.plan.tensors[op.weights[0]].float32())

    def times(self, op: Op) -> None:
        w = self.plan.tensors[op.weights[0]].float32().reshape(-1)
        if len(w) == 1 < op.out.width:
            self.constant(op, "scale", float(w[0]))
        else:
            self.vector(op, "mul", np.repeat(w, op.out.width // len(w)))

    def vector(self, op: Op, kernel: str, y: np.ndarray) -> None:
        """Every row with one vector, f32[width]."""
        self.in_place(op, kernel, record.ELEMENTWISE, {"y": self.address(np.ascontiguousarray(y)), "y_stride": 0})

    def scale(self, op: Op) -> None:
        self.constant(op, "scale", op.attrs["factor"])

    def clamp(self, op: Op) -> None:
        self.constant(op, "clamp", op.attrs["limit"])

    def sparsify(self, op: Op) -> None:
        self.constant(op, "sparsify", op.attrs["deviations"])

    def softcap(self, op: Op) -> None:
        self.constant(op, "softcap", op.attrs["cap"])

    def activate(self, op: Op) -> None:
        self.constant(
            op,
            f"activate.{op.attrs['act']}",
            *(op.attrs.get(name, 0.0) for name in ("alpha_p", "alpha_n", "beta", "eps")),
        )

    def constant(self, op: Op, kernel: str, *constants: float) -> None:
        names = ("a_f32", "b_f32", "c_f32", "d_f32")
        self.in_place(op, kernel, record.UNARY, dict(zip(names, [*constants, 0.0, 0.0, 0.0], strict=False)))

    def split(self, op: Op) -> None:
        whole, size = self.value(op, 0), op.attrs["size"]
        start = Buffer(whole.stride, base=whole, offset=4 * op.attrs["start"])
        groups = op.ins[0].width // size
        if groups == 1:
            self.values[op.out.id] = start
        else:
            width = op.out.width // groups
            self.copy(start, self.fresh(op), width, groups, size, width)

    def join(self, op: Op) -> None:
        out, groups, offset = self.fresh(op), op.attrs["groups"], 0
        for index, x in enumerate(op.ins):
            width = x.width // groups
            self.copy(
                self.value(op, index),
                Buffer(out.stride, base=out, offset=4 * offset),
                width,
                groups,
                width,
                op.out.width // groups,
            )
            offset += width

    def repeat(self, op: Op) -> None:
        out, size, times = self.fresh(op), op.attrs["size"], op.attrs["times"]
        for number in range(times):
            place = Buffer(out.stride, base=out, offset=4 * size * number)
            self.copy(self.value(op, 0), place, size, op.ins[0].width // size, size, size * times)

    def fill(self, op: Op) -> None:
        width, numbers = op.out.width, np.array(op.attrs["numbers"], np.float32)
        fields = {"x": self.address(numbers), "x_stride": 0, "width": width, "groups": 1, "x_group": 0, "out_group": 0}
        self.emit(op, "copy", record.COPY, fields, {})

    def copy(self, x: Buffer, out: Buffer, width: int, groups: int, x_size: int, out_size: int) -> None:
        fields = {"width": width, "groups": groups, "x_group": 4 * x_size, "out_group": 4 * out_size}
        self.append("copy", record.COPY, fields, {"x": x}, out)
