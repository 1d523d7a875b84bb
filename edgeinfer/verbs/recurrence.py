"""Verbs that remember: what they keep of a sequence is a state of fixed size, however long the sequence is."""

from __future__ import annotations

from edgeinfer.op import Value
from edgeinfer.verbs.tracer import Tracer, expect


class Recurrence(Tracer):
    """One op each; every such op has a state of its own for each sequence, zero at the start."""

    def shift(self, x: Value) -> Value:
        """The row of the token before."""
        return self._emit("shift", x.width, (x,))

    def conv(self, x: Value, name: str, kernel: int) -> Value:
        """Each column's own weighted sum of its last `kernel` rows, the newest last.

        The tensor is width x kernel or width x 1 x kernel; `name`.bias is added where the file has it.
        """
        weights = self._tensor(f"{name}.weight", (x.width, kernel), (x.width, 1, kernel))
        weights += self._optional(f"{name}.bias", x.width)
        return self._emit("conv", x.width, (x,), weights, kernel=kernel)

    def condense(self, x: Value, gate: Value, name: str, count: int) -> Value:
        """Each column's own mean of the rows of its pool so far, weighed by exp(gate + the tensor's for its place).

        Pools are `count` positions in a row, from the first one on; the tensor is count x width.
        """
        expect(gate.width == x.width, f"condense {x.width}, {gate.width}")
        return self._emit("condense", x.width, (x, gate), self._tensor(f"{name}.weight", (count, x.width)), count=count)

    def overlap(self, x: Value, gate: Value, name: str, count: int) -> Value:
        """`condense` of pools that overlap: with what the whole pool before gave.

        The first half of the columns of x, of the gate and of the tensor, count x x.width, is for the pool after a
        row's own, the second half for its own.
        """
        expect(gate.width == x.width and x.width % 2 == 0, f"overlap {x.width}, {gate.width}")
        weights = self._tensor(f"{name}.weight", (count, x.width))
        return self._emit("overlap", x.width // 2, (x, gate), weights, count=count)

    def ssm(self, x: Value, dt: Value, b: Value, c: Value, state: int, groups: int = 1) -> Value:
        """Selective state space, https://arxiv.org/abs/2312.00752 and https://arxiv.org/abs/2405.21060.

        x is dt.width heads, dt one step for each, b and c `groups` rows of `state`.  Head h of group g, with a and d
        from the tensors ssm_a (heads x 1 or heads x state) and ssm_d:
        S[i, n] <- exp(dt * a[n]) * S[i, n] + dt * x[i] * b[n];  y[i] = sum over n of S[i, n] * c[n], plus d * x[i].
        """
        heads = dt.width
        fits = x.width % heads == 0 and heads % groups == 0 and b.width == c.width == groups * state
        expect(fits, f"ssm of {x.width}, {heads}, {b.width}, {c.width}")
        weights = self._tensor("ssm_a", (heads, 1), (heads,), (heads, state))
        weights += self._tensor("ssm_d", (heads, 1), (heads,))
        return self._emit("ssm", x.width, (x, dt, b, c), weights, heads=heads, groups=groups, state=state)

    def wkv(self, r: Value, k: Value, v: Value, w: Value, bonus: str, heads: int) -> Value:
        """RWKV 6's time mixing, https://arxiv.org/abs/2404.05892.

        For each head, with u from the tensor `bonus`: y = (S + (u * k) v^T)^T r, then S <- diag(w) S + k v^T.
        """
        expect(r.width == k.width == v.width == w.width, f"wkv of {r.width}, {k.width}, {v.width}, {w.width}")
        weights = self._numbers(f"{bonus}.weight", r.width)
        return self._emit("wkv", r.width, (r, k, v, w), weights, heads=heads)

    def delta(self, q: Value, k: Value, v: Value, w: Value, a: Value, b: Value, heads: int) -> Value:
        """The generalised delta rule, https://arxiv.org/abs/2503.14456; https://arxiv.org/abs/2412.06464 is a case.

        q, k, w, a, b are `heads` rows of one size, v `heads` rows of another.  For each head:
        S <- S diag(w) + v k^T + (S a) b^T;  y = S q.
        """
        same = q.width == k.width == w.width == a.width == b.width
        expect(same and q.width % heads == 0 and v.width % heads == 0, f"delta of {q.width}, {v.width}")
        return self._emit("delta", v.width, (q, k, v, w, a, b), heads=heads)
