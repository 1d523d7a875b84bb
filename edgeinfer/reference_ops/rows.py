"""Op kinds that do each token's row by itself: embeddings, norms, linear layers, activations, arithmetic, columns."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from edgeinfer import backend
from edgeinfer.op import Op
from edgeinfer.reference_ops.step import Array, Step, groups, parts


def embed(op: Op, step: Step) -> Array:
    instead = dict(op.attrs["instead"])
    ids = [instead.get(id, id) for id in step.ids()]
    return step.weights.rows(op.weights[0], ids) * np.float32(op.attrs["scale"])


def marks(op: Op, step: Step) -> Array:
    numbers = dict(op.attrs["numbers"])
    return np.array([[numbers.get(id, op.attrs["other"])] for id in step.ids()], np.float32).reshape(-1, 1)


def positions(op: Op, step: Step) -> Array:
    return step.weights.rows(op.weights[0], step.positions().tolist())


def segments(op: Op, step: Step) -> Array:
    each = [backend.segments(chunk.ids, op.attrs["separator"], op.attrs["count"]) for chunk in step.chunks]
    return step.weights.rows(op.weights[0], np.concatenate(each).tolist())


def norm(op: Op, step: Step, x: Array) -> Array:
    y = groups(x, op.attrs["size"])
    mean = np.square(y).mean(axis=-1, keepdims=True)
    root: Array = np.sqrt(mean + np.float32(op.attrs["eps"]))
    return _weighted(op, step, y / root)


def layer_norm(op: Op, step: Step, x: Array) -> Array:
    y = groups(x, op.attrs["size"])
    y = y - y.mean(axis=-1, keepdims=True)
    variance = np.square(y).mean(axis=-1, keepdims=True)
    root: Array = np.sqrt(variance + np.float32(op.attrs["eps"]))
    return _weighted(op, step, y / root)


def _weighted(op: Op, step: Step, y: Array) -> Array:
    """Groups times weight plus bias, each one vector for all groups of a row or one for each."""
    weights = [step.weights[name].reshape(-1, op.attrs["size"]) for name in op.weights]
    y = y * weights[0] if weights else y
    y = y + weights[1] if len(weights) == 2 else y
    return y.reshape(len(y), op.out.width)


def l2_norm(op: Op, step: Step, x: Array) -> Array:
    y = groups(x, op.attrs["size"])
    length: Array = np.maximum(np.sqrt(np.square(y).sum(axis=-1, keepdims=True)), np.float32(op.attrs["eps"]))
    return (y / length).reshape(x.shape)


def softmax(op: Op, step: Step, x: Array) -> Array:
    y = groups(x, op.attrs["size"])
    weights: Array = np.exp(y - y.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights.reshape(x.shape)


def sinkhorn(op: Op, step: Step, x: Array) -> Array:
    """https://arxiv.org/abs/2512.24880"""
    eps, y = np.float32(op.attrs["eps"]), parts(x, op.attrs["side"])
    y = np.exp(y - y.max(axis=-1, keepdims=True))
    y = y / y.sum(axis=-1, keepdims=True) + eps
    for turn in range(op.attrs["turns"]):
        y = y / (y.sum(axis=-1, keepdims=True) + eps) if turn else y
        y = y / (y.sum(axis=-2, keepdims=True) + eps)
    out: Array = y.reshape(x.shape)
    return out


def linear(op: Op, step: Step, x: Array) -> Array:
    y = x @ step.weights[op.weights[0]].reshape(op.out.width, -1).T
    return y + step.weights[op.weights[1]] if len(op.weights) == 2 else y


def head_linear(op: Op, step: Step, x: Array) -> Array:
    w = step.weights[op.weights[0]]
    w = w.reshape(op.attrs["heads"], -1, w.shape[-1])  # f32[heads, width, part]
    y = parts(x, op.attrs["heads"])[:, :, None] @ w.transpose(0, 2, 1)
    return y.reshape(len(x), op.out.width)


def split(op: Op, step: Step, x: Array) -> Array:
    start, size = op.attrs["start"], op.attrs["size"]
    width = op.out.width // (x.shape[1] // size)
    return groups(x, size)[:, :, start : start + width].reshape(len(x), op.out.width)


def join(op: Op, step: Step, *xs: Array) -> Array:
    return np.concatenate([parts(x, op.attrs["groups"]) for x in xs], axis=-1).reshape(len(xs[0]), op.out.width)


def repeat(op: Op, step: Step, x: Array) -> Array:
    repeated = np.repeat(groups(x, op.attrs["size"])[:, :, None], op.attrs["times"], axis=2)
    return repeated.reshape(len(x), op.out.width)


def fill(op: Op, step: Step, x: Array) -> Array:
    return np.tile(np.array(op.attrs["numbers"], np.float32), (len(x), 1))


def activate(op: Op, step: Step, x: Array) -> Array:
    constants = {name: value for name, value in op.attrs.items() if name != "act"}
    return ACTIVATIONS[op.attrs["act"]](x, **constants)


def gated(op: Op, step: Step, gate: Array, up: Array) -> Array:
    if op.attrs["act"] == "oss":
        return oss(gate, up)
    return ACTIVATIONS[op.attrs["act"]](gate) * up


def silu(x: Array) -> Array:
    decay: Array = np.exp(-x)
    return x / (1 + decay)


def gelu(x: Array) -> Array:
    """The tanh form of https://arxiv.org/abs/1606.08415."""
    tanh: Array = np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3))
    return np.float32(0.5) * x * (1 + tanh)


def gelu_erf(x: Array) -> Array:
    """x * Phi(x), exactly."""
    erf = np.vectorize(math.erf, otypes=[np.float32])
    y: Array = np.float32(0.5) * x * (1 + erf(x * np.float32(math.sqrt(0.5))))
    return y


def relu(x: Array) -> Array:
    return np.maximum(x, np.float32(0))


def relu2(x: Array) -> Array:
    positive = relu(x)
    return positive * positive


def sigmoid(x: Array) -> Array:
    decay: Array = np.exp(-x)
    return np.float32(1) / (1 + decay)


def softplus(x: Array) -> Array:
    """log(1 + e^x)"""
    return np.logaddexp(x, np.float32(0))


def xielu(x: Array, alpha_p: float, alpha_n: float, beta: float, eps: float) -> Array:
    """https://arxiv.org/abs/2411.13010: a parabola above 0, below it alpha_n (e^x - 1 - x), both plus beta x."""
    positive = np.float32(alpha_p) * np.square(x) + np.float32(beta) * x
    low: Array = np.minimum(x, np.float32(eps))
    negative = (np.expm1(low) - x) * np.float32(alpha_n) + np.float32(beta) * x
    return np.where(x > 0, positive, negative)


def oss(gate: Array, up: Array) -> Array:
    """GPT-OSS, https://arxiv.org/abs/2508.10925: gate at most 7, up within 7; gate * sigmoid(1.702 gate) * (up + 1)."""
    gate = np.minimum(gate, np.float32(7))
    return gate * sigmoid(np.float32(1.702) * gate) * (np.clip(up, -7, 7) + np.float32(1))


def add(op: Op, step: Step, x: Array, y: Array) -> Array:
    return x + y


def mul(op: Op, step: Step, x: Array, y: Array) -> Array:
    return (parts(x, y.shape[1]) * y[:, :, None]).reshape(x.shape)


def plus(op: Op, step: Step, x: Array) -> Array:
    return x + step.weights[op.weights[0]].reshape(-1)


def times(op: Op, step: Step, x: Array) -> Array:
    w = step.weights[op.weights[0]].reshape(-1)
    return x * np.repeat(w, x.shape[1] // len(w))


def dot(op: Op, step: Step, x: Array, y: Array) -> Array:
    sums: Array = parts(x * y, op.out.width).sum(axis=-1)
    return sums


def sparsify(op: Op, step: Step, x: Array) -> Array:
    mean = x.mean(axis=-1, keepdims=True)
    deviation = x.std(axis=-1, ddof=1, keepdims=True)
    return relu(x - mean - np.float32(op.attrs["deviations"]) * deviation)


def scale(op: Op, step: Step, x: Array) -> Array:
    return x * np.float32(op.attrs["factor"])


def clamp(op: Op, step: Step, x: Array) -> Array:
    limit = np.float32(op.attrs["limit"])
    return np.clip(x, -limit, limit)


def softcap(op: Op, step: Step, x: Array) -> Array:
    cap = np.float32(op.attrs["cap"])
    tanh: Array = np.tanh(x / cap)
    return cap * tanh


def outputs(op: Op, step: Step, x: Array) -> Array:
    return np.concatenate([x[s.stop - c.outputs : s.stop] for c, s in zip(step.chunks, step.slices(), strict=True)])


def pool(op: Op, step: Step, x: Array) -> Array:
    """One row for each chunk."""
    one = {"mean": lambda rows: rows.mean(axis=0), "cls": lambda rows: rows[0], "last": lambda rows: rows[-1]}
    return np.stack([one[op.attrs["pooling"]](x[rows]) for rows in step.slices()])


FUNCTIONS = (silu, gelu, gelu_erf, relu, relu2, sigmoid, softplus, xielu)
ACTIVATIONS: dict[str, Callable[..., Array]] = {f.__name__: f for f in FUNCTIONS} | {
    "tanh": np.tanh,
    "exp": np.exp,
    "sqrt": np.sqrt,
}
NORMS = (norm, layer_norm, l2_norm, softmax, sinkhorn)
LAYERS = (embed, marks, positions, segments, *NORMS, linear, head_linear, activate, gated, outputs, pool)
ARITHMETIC = (split, join, repeat, fill, add, mul, plus, times, dot, sparsify, scale, clamp, softcap)
OPS: dict[str, Callable[..., Array]] = {f.__name__: f for f in (*LAYERS, *ARITHMETIC)}
