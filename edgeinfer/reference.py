"""ReferenceBackend: a plan run in plain numpy float32, one function per op kind.  It defines what a plan means.

Short and obvious, never optimised: every other backend is tested against it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from edgeinfer.backend import Chunk, check_step
from edgeinfer.errors import BackendError, RequestError
from edgeinfer.formats import dequantize
from edgeinfer.formats.gguf import Tensor
from edgeinfer.plan import Op, Plan

Array = npt.NDArray[np.float32]


class Weights:
    """Tensors as float32, dequantised on first use and kept."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self._kept: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._kept:
            self._kept[name] = self._tensors[name].float32()
        return self._kept[name]

    def rows(self, name: str, rows: Sequence[int]) -> Array:
        """Some rows of a table that may be large."""
        return dequantize(self._tensors[name].data[rows], self._tensors[name].type)


@dataclasses.dataclass
class Held:
    """What is kept of a sequence: its length in tokens, and K and V of each layer, f32[length, kv_heads, dim]."""

    length: int = 0
    kv: dict[int, tuple[Array, ...]] = dataclasses.field(default_factory=dict)

    def append(self, layer: int, *new: Array) -> tuple[Array, ...]:
        """K and V of `layer` with the new tokens' behind them.  `length` is left to the end of the step."""
        old = self.kv.get(layer, new)
        both = zip(old, new, strict=True)
        self.kv[layer] = tuple(np.concatenate([x[: self.length], more]) for x, more in both)
        return self.kv[layer]


@dataclasses.dataclass(frozen=True)
class Step:
    """What ops see of a step.  The tokens of all chunks lie behind each other: token t has id ids[t]."""

    weights: Weights
    chunks: Sequence[Chunk]
    held: Sequence[Held]  # of each chunk's sequence, as it is before the step

    def ids(self) -> list[int]:
        return [int(i) for chunk in self.chunks for i in chunk.ids]

    def slices(self) -> list[slice]:
        """The tokens of each chunk."""
        ends = np.cumsum([len(chunk.ids) for chunk in self.chunks]).tolist()
        return [slice(end - len(chunk.ids), end) for chunk, end in zip(self.chunks, ends, strict=True)]

    def positions(self) -> npt.NDArray[np.int64]:
        """int[tokens], each within its own sequence."""
        pairs = zip(self.chunks, self.held, strict=True)
        return np.concatenate([held.length + np.arange(len(chunk.ids)) for chunk, held in pairs])


class ReferenceBackend:
    """See `edgeinfer.backend.Backend`.  All K and V are kept, as float32, so `cut` never loses anything."""

    def __init__(self, plan: Plan, n_ctx: int, n_batch: int, n_seq: int) -> None:
        self.n_ctx, self.n_batch, self.n_seq = n_ctx, n_batch, n_seq
        self.n_vocab = plan.config.vocab
        self._ops = plan.ops
        self._weights = Weights(plan.tensors)
        self._held: dict[int, Held] = {}

    def open(self) -> int:
        free = [seq for seq in range(self.n_seq) if seq not in self._held]
        if not free:
            raise BackendError(f"all {self.n_seq} sequences are in use")
        self._held[free[0]] = Held()
        return free[0]

    def close_sequence(self, seq: int) -> None:
        self._of(seq)
        del self._held[seq]

    def close(self) -> None:
        self._held.clear()
        self._weights = Weights({})

    def length(self, seq: int) -> int:
        return self._of(seq).length

    def cut(self, seq: int, length: int) -> int:
        held = self._of(seq)
        if not 0 <= length <= held.length:
            raise RequestError(f"a sequence of {held.length} tokens cannot be cut to {length}")
        self._held[seq] = Held(length, {layer: (k[:length], v[:length]) for layer, (k, v) in held.kv.items()})
        return length

    def step(self, chunks: Sequence[Chunk], logits: Array) -> None:
        check_step(self, chunks, logits)
        step = Step(self._weights, chunks, [self._of(chunk.seq) for chunk in chunks])
        values: dict[int, Array] = {}
        with np.errstate(invalid="ignore", over="ignore"):  # weights that are not finite give logits that are not
            for op in self._ops:
                values[op.out.id] = OPS[op.kind](op, step, *(values[x.id] for x in op.ins))
        for chunk, held in zip(chunks, step.held, strict=True):
            held.length += len(chunk.ids)
        logits[:] = values[self._ops[-1].out.id]

    def _of(self, seq: int) -> Held:
        if seq not in self._held:
            raise RequestError(f"sequence {seq} is not open")
        return self._held[seq]


def embed(op: Op, step: Step) -> Array:
    return step.weights.rows(op.weights[0], step.ids()) * np.float32(op.attrs["scale"])


def norm(op: Op, step: Step, x: Array) -> Array:
    groups = x.reshape(-1, op.attrs["size"])
    mean = np.square(groups).mean(axis=-1, keepdims=True)
    root: Array = np.sqrt(mean + np.float32(op.attrs["eps"]))
    return (groups / root * step.weights[op.weights[0]]).reshape(x.shape)


def linear(op: Op, step: Step, x: Array) -> Array:
    y = x @ step.weights[op.weights[0]].T
    return y + step.weights[op.weights[1]] if len(op.weights) == 2 else y


def split(op: Op, step: Step, x: Array) -> Array:
    start = op.attrs["start"]
    return x[:, start : start + op.out.width]


def rope(op: Op, step: Step, x: Array) -> Array:
    """(a, b) -> (a cos - b sin, a sin + b cos) for each pair; the angles are float64, as positions may be large."""
    turn = op.attrs["rope"]
    pairs = len(turn.frequencies)
    y = x.reshape(len(x), -1, op.attrs["head_dim"]).copy()
    angles = step.positions()[:, None, None] * np.array(turn.frequencies)  # [tokens, 1, pairs]
    cos, sin = ((turn.scale * f(angles)).astype(np.float32) for f in (np.cos, np.sin))
    adjacent = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    first, second = adjacent if turn.pairs == "adjacent" else (slice(0, pairs), slice(pairs, 2 * pairs))
    a, b = y[..., first].copy(), y[..., second].copy()
    y[..., first], y[..., second] = a * cos - b * sin, a * sin + b * cos
    return y.reshape(x.shape)


def attend(op: Op, step: Step, q: Array, k: Array, v: Array) -> Array:
    """Each chunk by itself, over what its sequence holds and the chunk."""
    k = k.reshape(len(k), -1, op.attrs["key_dim"])
    v = v.reshape(len(v), -1, op.attrs["value_dim"])
    out = np.empty((len(q), op.out.width), np.float32)
    for rows, held in zip(step.slices(), step.held, strict=True):
        keys, values = held.append(op.attrs["layer"], k[rows], v[rows])
        out[rows] = attend_one(op, q[rows], keys, values)
    return out


def attend_one(op: Op, q: Array, keys: Array, values: Array) -> Array:
    """softmax(q . keys * scale) . values, where q is that of the last positions.

    q f32[tokens, heads * key_dim], keys and values f32[positions, kv_heads, dim] -> f32[tokens, heads * value_dim].
    """
    heads, group, window = op.attrs["heads"], op.attrs["heads"] // op.attrs["kv_heads"], op.attrs["window"]
    q = q.reshape(len(q), heads, -1).transpose(1, 0, 2)  # heads first from here on
    keys, values = (np.repeat(x.transpose(1, 0, 2), group, axis=0) for x in (keys, values))
    scores = q @ keys.transpose(0, 2, 1) * np.float32(op.attrs["scale"])  # f32[heads, tokens, positions]
    positions = np.arange(keys.shape[1])
    behind = positions[-q.shape[1] :, None] - positions  # how far each key lies behind each query
    scores[:, (behind < 0) | (behind >= (window or math.inf))] = -np.inf
    weights: Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return (weights @ values).transpose(1, 0, 2).reshape(q.shape[1], -1)


def gated(op: Op, step: Step, gate: Array, up: Array) -> Array:
    return ACTIVATIONS[op.attrs["act"]](gate) * up


def silu(x: Array) -> Array:
    decay: Array = np.exp(-x)
    return x / (1 + decay)


def gelu(x: Array) -> Array:
    """The tanh form of https://arxiv.org/abs/1606.08415."""
    tanh: Array = np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3))
    return np.float32(0.5) * x * (1 + tanh)


def add(op: Op, step: Step, x: Array, y: Array) -> Array:
    return x + y


def outputs(op: Op, step: Step, x: Array) -> Array:
    return np.concatenate([x[s.stop - c.outputs : s.stop] for c, s in zip(step.chunks, step.slices(), strict=True)])


def softcap(op: Op, step: Step, x: Array) -> Array:
    cap = np.float32(op.attrs["cap"])
    tanh: Array = np.tanh(x / cap)
    return cap * tanh


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"silu": silu, "gelu": gelu}
OPS: dict[str, Callable[..., Array]] = {
    f.__name__: f for f in (embed, norm, linear, split, rope, attend, gated, add, outputs, softcap)
}
