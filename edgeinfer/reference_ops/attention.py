"""Op kinds of attention: rotation by position, the scores' temperature, and attention over what a sequence holds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from edgeinfer.op import Op
from edgeinfer.reference_ops.step import Array, Held, Step, groups, parts
from edgeinfer.verbs.attention import SEEN

NOTHING = np.float32(-1e30)  # a score below all others


def rope(op: Op, step: Step, x: Array) -> Array:
    """(a, b) -> (a cos - b sin, a sin + b cos) for each pair; the angles are float64, as positions may be large."""
    turn, start = op.attrs["rope"], op.attrs["start"]
    pairs = len(turn.frequencies)
    y = groups(x, op.attrs["head_dim"]).copy()
    positions = step.positions() // turn.stride * turn.stride
    angles = positions[:, None, None] * np.array(turn.frequencies)  # [tokens, 1, pairs]
    cos, sin = ((turn.scale * f(angles)).astype(np.float32) for f in (np.cos, np.sin))
    adjacent = slice(start, start + 2 * pairs, 2), slice(start + 1, start + 2 * pairs, 2)
    halves = slice(start, start + pairs), slice(start + pairs, start + 2 * pairs)
    first, second = adjacent if turn.pairs == "adjacent" else halves
    a, b = y[..., first].copy(), y[..., second].copy()
    y[..., first], y[..., second] = a * cos - b * sin, a * sin + b * cos
    out: Array = y.reshape(x.shape)
    return out


def temper(op: Op, step: Step, x: Array) -> Array:
    floors = (step.positions() + op.attrs["offset"]) // op.attrs["floor"]
    factors: Array = (1 + op.attrs["scale"] * np.log1p(floors)).astype(np.float32)
    return x * factors[:, None]


def attend(op: Op, step: Step, q: Array, *kv: Array) -> Array:
    """Each chunk by itself, over what its sequence holds and the chunk."""
    given = step.weights[op.weights[0]] if op.weights else None
    sinks, biases = (None, given) if op.attrs["buckets"] else (given, None)
    name = f"attend {op.attrs['layer']}"

    def one(held: Held, q: Array, *kv: Array) -> Array:
        if kv:
            keys, values = held.append(name, *(parts(x, op.attrs["kv_heads"]) for x in kv[:2]))
        else:
            keys, values = held.text[op.attrs["layer"]] if op.attrs["text"] else held.rows[name]
        return attend_one(op, q, keys, values, sinks, biases, *kv[2:])

    return step.each(one, q, *kv)


def attend_one(
    op: Op,
    q: Array,
    keys: Array,
    values: Array,
    sinks: Array | None,
    biases: Array | None = None,
    seen: Array | None = None,
) -> Array:
    """softmax(q . keys * scale) . values, where q is that of the last positions.

    q f32[tokens, heads * key_dim], keys and values f32[positions, kv_heads, dim] -> f32[tokens, heads * value_dim], and
    behind that where it is wanted f32[tokens, heads]: logarithms of the sums of exp(scores).  What sees nothing is 0.
    """
    own, stride = np.arange(len(keys))[-len(q) :], op.attrs["stride"]
    keys, values = keys[stride - 1 :: stride], values[stride - 1 :: stride]
    heads, cap = op.attrs["heads"], np.float32(op.attrs["cap"])
    q = q.reshape(len(q), heads, -1).transpose(1, 0, 2)  # heads first from here on
    keys, values = (np.repeat(x.transpose(1, 0, 2), heads // op.attrs["kv_heads"], axis=0) for x in (keys, values))
    scores = q @ keys.transpose(0, 2, 1) * np.float32(op.attrs["scale"])  # f32[heads, tokens, positions]
    scores = cap * np.tanh(scores / cap) if cap else scores
    positions = np.arange(keys.shape[1])
    own = last_kept(own, stride)
    if op.attrs["text"]:  # all of which is seen, as from its end
        own = positions[-1:].repeat(q.shape[1])
    behind = own[:, None] - positions  # how far each key lies behind each query
    if op.attrs["slopes"]:
        scores = scores - np.array(op.attrs["slopes"], np.float32)[:, None, None] * np.abs(behind).astype(np.float32)
    if biases is not None:
        scores = scores + biases[bucket(op, behind)].transpose(2, 0, 1)
    scores[:, ~visible(op, behind, positions)] = -np.inf
    if seen is not None:
        chosen = spread(parts(seen, op.attrs["sets"]))[:, :, : len(positions)].transpose(1, 0, 2)  # sets first
        scores = np.where(np.repeat(chosen, heads // len(chosen), axis=0), scores, np.float32(-np.inf))
    most = scores.max(axis=-1, keepdims=True, initial=NOTHING)
    most = most if sinks is None else np.maximum(most, sinks[:, None, None])
    weights = np.exp(scores - most)
    total = weights.sum(axis=-1, keepdims=True) + (0 if sinks is None else np.exp(sinks[:, None, None] - most))
    weights /= np.where(total > 0, total, 1)
    out: Array = (weights @ values).transpose(1, 0, 2).reshape(q.shape[1], -1)
    if not op.attrs["logs"]:
        return out
    logs = most + np.log(total, where=total > 0, out=np.full_like(total, -np.inf))
    return np.concatenate([out, logs[..., 0].T], axis=1)


def last_kept(positions: np.ndarray, stride: int) -> np.ndarray:
    """The number of the last position up to one's own among those kept, each stride-th; -1 before the first."""
    numbers: np.ndarray = (positions + 1) // stride - 1
    return numbers


def bucket(op: Op, behind: np.ndarray) -> np.ndarray:
    """i64[tokens, positions]: which row of the biases a query and a key have."""
    numbers = np.array(op.attrs["buckets"])
    reach = len(numbers) // 2
    found: np.ndarray = numbers[np.clip(behind, -reach, reach) + reach]
    return found


def visible(op: Op, behind: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """bool[tokens, positions]: which keys a query sees."""
    window = op.attrs["window"] or math.inf
    seen: np.ndarray = (behind >= (0 if op.attrs["causal"] else 1 - window)) & (behind < window)
    if op.attrs["chunk"]:
        seen &= positions >= positions[-len(behind) :, None] // op.attrs["chunk"] * op.attrs["chunk"]
    return seen


def store(op: Op, step: Step, k: Array, v: Array) -> Array:
    """A text is read in one step."""
    for rows, held in zip(step.slices(), step.held, strict=True):
        held.text[op.attrs["layer"]] = parts(k[rows], op.attrs["kv_heads"]), parts(v[rows], op.attrs["kv_heads"])
    return k[:, :0]


def rate(op: Op, step: Step, q: Array, k: Array, *w: Array) -> Array:
    def one(held: Held, q: Array, k: Array, *w: Array) -> Array:
        (keys,) = held.append(f"rate {op.attrs['layer']}", k)
        own, stride = np.arange(len(keys) - len(q), len(keys))[:, None, None], op.attrs["stride"]
        keys = keys[stride - 1 :: stride]
        products = parts(q, op.attrs["heads"]) @ keys.T  # f32[tokens, heads, positions]
        if w:
            products = (np.maximum(products, np.float32(0)) * w[0][:, :, None]).sum(axis=1, keepdims=True)
        scores = np.full((*products.shape[:2], op.out.width // products.shape[1]), -np.inf, np.float32)
        scores[:, :, : len(keys)] = products
        hidden = np.arange(scores.shape[2]) > last_kept(own, stride)
        return np.where(hidden, np.float32(-np.inf), scores).reshape(len(q), -1)

    return step.each(one, q, k, *w)


def choose(op: Op, step: Step, scores: Array) -> Array:
    sets, block = op.attrs["sets"], op.attrs["block"]
    every = parts(scores, sets).reshape(len(scores), sets, -1, block)
    blocks = every[..., -1].copy() if op.attrs["pooled"] else every.max(axis=-1)
    behind = (last_kept(step.positions(), op.attrs["stride"]) // block)[:, None] - np.arange(blocks.shape[2])
    blocks[((behind >= 0) & (behind < op.attrs["local"]))[:, None].repeat(sets, axis=1)] = np.inf
    best = np.argsort(-blocks, axis=-1, kind="stable")[:, :, : op.attrs["count"]]
    chosen = np.zeros(blocks.shape, np.float32)
    np.put_along_axis(chosen, best, np.float32(1), axis=-1)
    if op.attrs["pooled"]:
        chosen[((behind == 0) & (step.positions() % block < block - 1)[:, None])[:, None].repeat(sets, axis=1)] = 1
    bits = groups(np.repeat(chosen, block, axis=-1).reshape(scores.shape), SEEN)
    return bits @ np.float32(2) ** np.arange(SEEN, dtype=np.float32)


def spread(seen: Array) -> np.ndarray:
    """bool[tokens, sets, positions] of numbers whose bits say which of 16 positions are chosen."""
    bits = seen.astype(np.int64)[..., None] >> np.arange(SEEN) & 1
    return bits.reshape(*seen.shape[:2], -1).astype(bool)


OPS: dict[str, Callable[..., Array]] = {f.__name__: f for f in (rope, temper, attend, store, rate, choose)}
