"""Op kinds that remember: short convolutions and recurrences, one token after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgeinfer.op import Op
from edgeinfer.reference_ops.step import Array, Held, Step


def shift(op: Op, step: Step, x: Array) -> Array:
    def one(held: Held, x: Array) -> Array:
        return last_rows(op, held, x, 2)[0]

    return step.each(one, x)


def conv(op: Op, step: Step, x: Array) -> Array:
    w: Array = step.weights[op.weights[0]].reshape(op.out.width, -1).T  # f32[kernel, width]

    def one(held: Held, x: Array) -> Array:
        y: Array = sum(rows * column for rows, column in zip(last_rows(op, held, x, len(w)), w, strict=True))
        return y

    y = step.each(one, x)
    return y + step.weights[op.weights[1]] if len(op.weights) == 2 else y


def condense(op: Op, step: Step, x: Array, gate: Array) -> Array:
    count, places = op.attrs["count"], step.weights[op.weights[0]]  # f32[count, width]

    def one(held: Held, x: Array, gate: Array) -> Array:
        rows, gates = held.append(f"condense {op.out.id}", x, gate)
        out = np.empty_like(x)
        for row, end in enumerate(range(len(rows) - len(x) + 1, len(rows) + 1)):
            own = slice((end - 1) // count * count, end)
            logits = gates[own] + places[: own.stop - own.start]
            weights = np.exp(logits - logits.max(axis=0))
            out[row] = (weights * rows[own]).sum(axis=0) / weights.sum(axis=0)
        return out

    return step.each(one, x, gate)


def overlap(op: Op, step: Step, x: Array, gate: Array) -> Array:
    count, places, width = op.attrs["count"], step.weights[op.weights[0]], op.out.width

    def one(held: Held, x: Array, gate: Array) -> Array:
        rows, gates = held.append(f"overlap {op.out.id}", x, gate)
        logits = gates + places[np.arange(len(rows)) % count]
        out = np.empty((len(x), width), np.float32)
        for row, end in enumerate(range(len(rows) - len(x) + 1, len(rows) + 1)):
            start = (end - 1) // count * count
            before, own = slice(max(start - count, 0), start), slice(start, end)
            both, values = (np.concatenate([y[before, :width], y[own, width:]]) for y in (logits, rows))
            weights = np.exp(both - both.max(axis=0))
            out[row] = (weights * values).sum(axis=0) / weights.sum(axis=0)
        return out

    return step.each(one, x, gate)


def last_rows(op: Op, held: Held, x: Array, count: int) -> list[Array]:
    """For each token of x the last `count` rows, oldest first, itself last, zero before the start: `count` arrays."""
    (rows,) = held.append(f"{op.kind} {op.out.id}", x)
    rows = np.concatenate([np.zeros((count - 1, x.shape[1]), np.float32), rows])
    first = len(rows) - len(x)
    return [rows[first - back : len(rows) - back] for back in range(count - 1, -1, -1)]


def ssm(op: Op, step: Step, x: Array, dt: Array, b: Array, c: Array) -> Array:
    heads, groups, size = op.attrs["heads"], op.attrs["groups"], op.attrs["state"]
    a, d = (step.weights[name].reshape(heads, -1) for name in op.weights)  # [heads, 1 or state], [heads, 1]

    def turn(state: Array, x: Array, dt: Array, b: Array, c: Array) -> tuple[Array, Array]:
        b, c = (np.repeat(z.reshape(groups, size), heads // groups, axis=0)[:, None] for z in (b, c))
        x, dt = x.reshape(heads, -1, 1), dt.reshape(heads, 1, 1)
        state = np.exp(dt * a[:, None]) * state + dt * x * b  # [heads, width of a head, state]
        y = (state * c).sum(axis=-1) + d * x[..., 0]
        return state, y.reshape(-1)

    start = np.zeros((heads, x.shape[1] // heads, size), np.float32)
    return recur(op, step, start, turn, x, dt, b, c)


def wkv(op: Op, step: Step, r: Array, k: Array, v: Array, w: Array) -> Array:
    heads = op.attrs["heads"]
    size = r.shape[1] // heads
    u = step.weights[op.weights[0]].reshape(heads, size, 1)

    def turn(state: Array, r: Array, k: Array, v: Array, w: Array) -> tuple[Array, Array]:
        product = k.reshape(heads, size, 1) * v.reshape(heads, 1, size)
        y = (r.reshape(heads, size, 1) * (state + u * product)).sum(axis=1)
        return w.reshape(heads, size, 1) * state + product, y.reshape(-1)

    return recur(op, step, np.zeros((heads, size, size), np.float32), turn, r, k, v, w)


def delta(op: Op, step: Step, q: Array, k: Array, v: Array, w: Array, a: Array, b: Array) -> Array:
    heads = op.attrs["heads"]

    def turn(state: Array, *row: Array) -> tuple[Array, Array]:
        q, k, v, w, a, b = (x.reshape(heads, 1, -1) for x in row)
        remembered = (state * a).sum(axis=-1, keepdims=True)  # [heads, width of v, 1]
        state = state * w + v.transpose(0, 2, 1) * k + remembered * b
        return state, (state * q).sum(axis=-1).reshape(-1)

    start = np.zeros((heads, v.shape[1] // heads, q.shape[1] // heads), np.float32)
    return recur(op, step, start, turn, q, k, v, w, a, b)


def recur(op: Op, step: Step, start: Array, turn: Callable[..., tuple[Array, Array]], *ins: Array) -> Array:
    """The outputs of `turn`, token by token, in each sequence by itself."""
    name = f"{op.kind} {op.out.id}"
    return step.each(lambda held, *rows: held.advance(name, start, turn, *rows), *ins)


OPS: dict[str, Callable[..., Array]] = {f.__name__: f for f in (shift, conv, condense, overlap, ssm, wkv, delta)}
