"""Op kinds of a mixture of experts: the choice of experts for each token, their linear layers, sums by weight."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgeinfer.op import Op
from edgeinfer.reference_ops.rows import sigmoid, softplus
from edgeinfer.reference_ops.step import Array, Step, groups, parts

LEAST_SUM = np.float32(2**-14)  # that weights are divided by: the smallest normal number of float16


def route(op: Op, step: Step, scores: Array) -> Array:
    """f32[tokens, experts] -> f32[tokens, 2 * used]: numbers of the experts, best first, and their weights."""
    values = GATES[op.attrs["gate"]](scores)
    ranks = values + step.weights[op.weights[0]] if op.weights else values
    ranks = best_groups(op, ranks) if op.attrs["groups"] > 1 else ranks
    return weighed(op, values, np.argsort(-ranks, axis=-1, kind="stable")[:, : op.attrs["used"]])


def assign(op: Op, step: Step, scores: Array) -> Array:
    return weighed(op, GATES[op.attrs["gate"]](scores), step.weights.whole_numbers(op.weights[0])[step.ids()])


def weighed(op: Op, values: Array, chosen: np.ndarray) -> Array:
    """The choice of these experts, by the gate's values of all."""
    weights = np.take_along_axis(values, chosen, axis=-1)
    weights = softmax(weights) if op.attrs["gate"] == "chosen" else weights
    if op.attrs["normalise"]:
        weights = weights / np.maximum(weights.sum(axis=-1, keepdims=True), LEAST_SUM)
    return np.concatenate([chosen.astype(np.float32), weights * np.float32(op.attrs["scale"])], axis=-1)


def best_groups(op: Op, ranks: Array) -> Array:
    """The ranks of experts of the best groups, -inf for all others; a group is as good as its two best together."""
    left = parts(ranks, op.attrs["groups"]).copy()
    merit = np.sort(left, axis=-1)[..., -2:].sum(axis=-1)
    others = np.argsort(-merit, axis=-1, kind="stable")[:, op.attrs["groups_used"] :]
    np.put_along_axis(left, others[..., None], -np.inf, axis=1)
    out: Array = left.reshape(ranks.shape)
    return out


def softmax(x: Array) -> Array:
    weights: Array = np.exp(x - x.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


GATES: dict[str, Callable[[Array], Array]] = {
    "softmax": softmax,
    "sigmoid": sigmoid,
    "chosen": np.array,
    "sqrtsoftplus": lambda scores: np.sqrt(softplus(scores)),
}


def expert_linear(op: Op, step: Step, x: Array, choice: Array) -> Array:
    used = op.attrs["used"]
    w = step.weights[op.weights[0]]  # f32[experts, width, row]
    rows = parts(x, used) if op.attrs["each"] else np.repeat(x[:, None], used, axis=1)
    out = np.empty((len(x), used, w.shape[1]), np.float32)
    chosen = choice[:, :used].astype(np.int64)
    for expert in np.unique(chosen):
        here = chosen == expert
        y = rows[here] @ w[expert].T
        out[here] = y + step.weights[op.weights[1]][expert] if len(op.weights) == 2 else y
    return out.reshape(len(x), op.out.width)


def pick(op: Op, step: Step, choice: Array) -> Array:
    return step.weights[op.weights[0]][choice[:, : op.out.width].astype(np.int64)]


def group(op: Op, step: Step, choice: Array) -> Array:
    return choice[:, : op.out.width] // np.float32(op.attrs["size"])


def mix(op: Op, step: Step, x: Array, w: Array) -> Array:
    sums = groups(w, op.attrs["parts"]) @ parts(x, op.attrs["parts"])
    return sums.reshape(len(x), op.out.width)


OPS: dict[str, Callable[..., Array]] = {f.__name__: f for f in (route, assign, expert_linear, pick, group, mix)}
