"""Op kinds of attention."""

from __future__ import annotations

import math

import numpy as np

from edgeinfer.errors import UnsupportedError
from edgeinfer.lowering.nodes import Buffer, Node, Nodes, keys_at
from edgeinfer.plan import Op
from edgeinfer.simd_kernels import layout, record


class Attention(Nodes):
    """A method for each op kind."""

    def rope(self, op: Op) -> None:
        rope, head_dim = op.attrs["rope"], op.attrs["head_dim"]
        table = self.ropes.setdefault(rope, f"rope{len(self.ropes)}")
        pairs, start = len(rope.frequencies), op.attrs["start"]
        fields = {"heads": op.out.width // head_dim, "head_dim": head_dim, "start": start, "pairs": pairs, "table": 0}
        self.emit(op, f"rope.{rope.pairs}", record.ROPE, fields, {"x": self.value(op, 0)}, {"table": table})

    def temper(self, op: Op) -> None:
        a = op.attrs
        floors = (np.arange(self.cache.n_ctx) + a["offset"]) // a["floor"]
        table = (1 + a["scale"] * np.log1p(floors)).astype(np.float32)
        self.in_place(op, "temper", record.TEMPER, {"table": self.address(table)})

    def attend(self, op: Op) -> None:
        a, (fields, helpers, pool) = op.attrs, self.stored(op)
        biased, seen = bool(a["buckets"]), {"seen": self.value(op, 3)} if op.ins[3:] else {}
        extras = {"cap": a["cap"], "slopes": a["slopes"], "chunk": a["chunk"], "biases": biased, "seen": seen}
        extras |= {"sinks": bool(op.weights) and not biased, "logs": a["logs"]}
        fields.update(
            group=a["heads"] // a["kv_heads"],
            window=a["window"],
            ahead=0 if a["causal"] else (a["window"] or self.cache.n_ctx) - 1,
            chunk=a["chunk"],
            scale_f32=a["scale"],
            cap_f32=a["cap"],
        )
        fields["slopes"] = self.biases(op) if biased else self.address(np.array(a["slopes"], np.float32))
        fields["sinks"] = self.floats(op.weights[0]) if extras["sinks"] else 0
        name = layout.attend_name(self.cache.kv_type, [extra for extra, given in extras.items() if given])
        reads = {"q": self.rotated(op, 0, a["key_dim"]), "": pool}
        helpers["positions"] = "text_ends" if a["text"] else layout.kept_name(a["stride"])
        fields |= {} if seen else {"seen": 0, "seen_stride": 0}
        fields["seen_head"] = 4 * op.ins[3].width // a["sets"] if a["sets"] > 1 else 0
        self.emit(op, name, record.ATTEND, fields, reads | seen, helpers, alone=False)
        out = self.values[op.out.id]
        self.rotate(out, out, a["heads"] * a["value_dim"], a["value_dim"])

    def store(self, op: Op) -> None:
        self.stored(op)

    def biases(self, op: Op) -> int:
        buckets = op.attrs["buckets"][::-1]  # from here on from behind to ahead
        wide = np.pad(buckets, (layout.BIASES - len(buckets)) // 2, mode="edge")
        by_distance = self.plan.tensors[op.weights[0]].float32()[wide].T
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite gives logits that are not
            return self.address(np.ascontiguousarray(by_distance / np.float32(math.log(2))))

    def rate(self, op: Op) -> None:
        (fields, helpers, pool), heads, each = self.stored(op), op.attrs["heads"], len(op.ins) == 2
        fields |= {"heads": heads, "set_bytes": 4 * op.out.width // heads}
        fields |= {"w": 0, "w_stride": 0} if each else {}
        reads = {"q": self.rotated(op, 0, op.attrs["key_dim"]), "": pool}
        reads |= {} if each else {"w": self.value(op, 2)}
        helpers["positions"] = layout.kept_name(op.attrs["stride"])
        name = f"rate{'.each' * each}.{self.cache.kv_type}"
        self.emit(op, name, record.RATE, fields, reads, helpers, alone=False)

    def choose(self, op: Op) -> None:
        a = op.attrs
        fields = {"most": a["count"], "sets": a["sets"], "width": op.ins[0].width // a["sets"]}
        fields |= {"block": a["block"], "local": a["local"]}
        kernel = "choose.pools" if a["pooled"] else "choose" if a["block"] == 1 else "choose.blocks"
        reads, helpers = {"x": self.value(op, 0)}, {"positions": layout.kept_name(a["stride"])}
        self.emit(op, kernel, record.CHOOSE, fields, reads, helpers, alone=kernel == "choose")  # others use scratch

    def stored(self, op: Op) -> tuple[dict[str, int | float], dict[str, str], Buffer]:
        """What kernels have to know of a layer's keys and values, after the op's own, if it has such, are stored."""
        a, text = op.attrs, op.attrs.get("text", False)
        cache = self.texts if text and self.texts else self.cache
        kv, group = cache.kv_type, cache.group_of[a["layer"]]
        for name in ("key_dim", "value_dim"):
            if a[name] > layout.HEAD_ROOM:
                raise UnsupportedError(
                    f"attention heads of {a[name]} dims; the kernels have room for {layout.HEAD_ROOM}"
                )
        key_bytes, value_bytes = layout.block_bytes(kv, a["key_dim"], a["value_dim"])
        blocks = cache.groups[group].pool_blocks
        fields: dict[str, int | float] = {
            "tables": 0,
            "pool": cache.pools[a["layer"]].ctypes.data,
            "head_bytes": blocks * (key_bytes + value_bytes),
            "value_at": blocks * key_bytes,
            "key_bytes": key_bytes,
            "value_bytes": value_bytes,
            **{name: a[name] for name in ("kv_heads", "key_dim", "value_dim")},
        }
        pool = self.cached.setdefault(a["layer"], Buffer(0))
        helpers = {"tables": "text_tables" if text else layout.tables_name(group)}
        if op.caches:
            at = keys_at(op)
            keys = self.rotated(op, at, a["key_dim"])
            reads = {"k": keys, "v": self.rotated(op, at + 1, a["value_dim"]) if a["value_dim"] else keys}
            own = fields | {"stride": a["stride"]}
            self.nodes.append(Node(f"store.{kv}", record.STORE, own, reads, {"": pool}, self.rows, True, dict(helpers)))
        return fields, helpers, pool

    def rotated(self, op: Op, index: int, head_dim: int) -> Buffer:
        """An input, its heads rotated where the cache holds codes; in its own place where nothing else reads it."""
        x, width = self.value(op, index), op.ins[index].width
        alone = self.readers[op.ins[index].id] == 1 and x.base is None
        return self.rotate(x, x if alone else Buffer(layout.up(4 * width, 64)), width, head_dim)

    def rotate(self, x: Buffer, out: Buffer, width: int, head_dim: int) -> Buffer:
        block = layout.rotation(self.cache.kv_type, head_dim)
        if not block:
            return x
        fields = {"width": width, "block": block, "factor_f32": block**-0.5}
        self.append("rotate", record.ROTATE, fields, {"x": x}, out)
        return out
