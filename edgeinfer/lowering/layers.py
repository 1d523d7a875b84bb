"""Op kinds of layers: embeddings, norms, linear layers, the choice of rows."""

from __future__ import annotations

import numpy as np

from edgeinfer.lowering.nodes import Buffer, Nodes
from edgeinfer.plan import Op
from edgeinfer.simd_kernels import layout, record

MOST = 2**31  # rows: all of a chunk


class Layers(Nodes):
    """A method for each op kind."""

    def embed(self, op: Op) -> None:
        self.table(op, "instead" if op.attrs["instead"] else "ids", op.attrs["scale"])

    def marks(self, op: Op) -> None:
        numbers = np.full(op.attrs["vocab"], op.attrs["other"], np.float32)
        for id, number in op.attrs["numbers"]:
            numbers[id] = number
        sizes = {"row_bytes": 4, "cols": 1, "group": layout.group("F32"), "scale_f32": 1.0}
        fields = {"numbers": 0, "table": self.address(numbers), **sizes}
        self.emit(op, "embed.float", record.EMBED, fields, {}, {"unpack": "unpack.F32", "numbers": "ids"}, alone=False)

    def positions(self, op: Op) -> None:
        self.table(op, "positions", 1.0)

    def segments(self, op: Op) -> None:
        self.table(op, "segments", 1.0)

    def table(self, op: Op, numbers: str, scale: float) -> None:
        """Rows of a table by the numbers the step has for its tokens."""
        tensor = self.plan.tensors[op.weights[0]]
        floating = tensor.type.name in layout.FLOATS
        fields = {
            "numbers": 0,
            "table": self.address(tensor.data),
            "row_bytes": tensor.nbytes // tensor.shape[0],
            "cols": tensor.shape[1],
            "group": layout.group(tensor.type.name),
            "scale_f32": scale,
        }
        helpers = {"unpack": f"unpack.{tensor.type.name}", "numbers": numbers}
        kernel = f"embed.{'float' if floating else 'quantised'}"
        self.emit(op, kernel, record.EMBED, fields, {}, helpers, alone=False)  # as it uses its worker's scratch

    def norm(self, op: Op) -> None:
        """One vector of weights for all groups or one for each; where there is none, ones and zeros."""
        size, width = op.attrs["size"], op.out.width
        vectors = [self.plan.tensors[name].float32().reshape(-1) for name in op.weights]
        weight = vectors[0] if vectors else np.ones(size, np.float32)
        bias = vectors[1] if len(vectors) > 1 else np.zeros_like(weight)
        fields = {
            "weight": self.address(np.ascontiguousarray(weight)),
            "bias": self.address(np.ascontiguousarray(bias)),
            "weight_group": 4 * size if len(weight) > size else 0,
            "size": size,
            "groups": width // size,
            "eps_f32": op.attrs["eps"],
        }
        self.emit(op, op.kind, record.NORM, fields, {"x": self.value(op, 0)})

    layer_norm = l2_norm = norm

    def softmax(self, op: Op) -> None:
        fields = {"size": op.attrs["size"], "groups": op.out.width // op.attrs["size"]}
        self.emit(op, "softmax", record.SOFTMAX, fields, {"x": self.value(op, 0)})

    def sinkhorn(self, op: Op) -> None:
        fields = {"side": op.attrs["side"], "turns": op.attrs["turns"], "eps_f32": op.attrs["eps"]}
        self.emit(op, "sinkhorn", record.SINKHORN, fields, {"x": self.value(op, 0)})

    def linear(self, op: Op) -> None:
        tensor = self.plan.tensors[op.weights[0]]
        x = self.value(op, 0) if tensor.type.name in layout.FLOATS else self.quantise(op)
        out = self.fresh(op)
        bias = self.floats(op.weights[1]) if len(op.weights) > 1 else 0
        self.matrix(op, self.address(tensor.data), tensor.shape[-1], op.out.width, x, out, bias)

    def head_linear(self, op: Op) -> None:
        """A linear layer for each head, from its part of the row to its part."""
        tensor = self.plan.tensors[op.weights[0]]
        heads, part = op.attrs["heads"], tensor.shape[-1]
        width, matrices = op.out.width // heads, tensor.data.reshape(heads, op.out.width // heads, -1)
        source, out = self.value(op, 0), self.fresh(op)
        for head in range(heads):
            x = Buffer(source.stride, base=source, offset=4 * part * head)
            if tensor.type.name not in layout.FLOATS:
                x = self.quantised_part(op, x, part)
            place = Buffer(out.stride, base=out, offset=4 * width * head)
            self.matrix(op, self.address(matrices[head]), part, width, x, place, 0)

    def matrix(self, op: Op, address: int, cols: int, rows: int, x: Buffer, out: Buffer, bias: int) -> None:
        """out = x times the matrix [rows][cols] at `address`, of the type of the op's tensor."""
        tensor = self.plan.tensors[op.weights[0]]
        name = tensor.type.name
        fine = self.fine(op) and name not in layout.FLOATS
        kind = "float" if name in layout.FLOATS else "fine" if fine else "quantised"
        row_bytes = tensor.type.row_bytes(cols)
        fields = {
            "w": address,
            "row_bytes": row_bytes,
            "rows": rows,
            "cols": cols,
            "bias": bias,
            "chunk": self.chunk(rows, row_bytes),
            "block": tensor.type.block,
            "block_bytes": tensor.type.bytes,
            "group": layout.group(name),
        }
        helpers = {
            "dot": f"dot.{'fine.' * fine}{name}",
            "few": f"few.{'fine.' * fine}{name}",
            "panel": f"panel.{name}",
            "tile": layout.tile_name(name),
        }
        self.append(f"linear.{kind}", record.LINEAR, fields, {"x": x}, out, helpers, alone=False)

    def outputs(self, op: Op) -> None:
        self.rows = "outputs"
        self.emit(op, "outputs", record.OUTPUTS, {"width": op.out.width}, {"x": self.value(op, 0)}, alone=False)

    def pool(self, op: Op) -> None:
        """A sequence gives one row, and its chunk has one output: there are as many of both."""
        self.rows = "outputs"
        fields = {"width": op.out.width, "most": MOST if op.attrs["pooling"] == "mean" else 1}
        fields["from_end"] = int(op.attrs["pooling"] == "last")
        self.emit(op, "pool", record.POOL, fields, {"x": self.value(op, 0)}, alone=False)
