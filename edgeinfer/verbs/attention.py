"""Verbs of attention: rotation by position, the scores' temperature, and attention over what a sequence holds."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from edgeinfer.op import Value
from edgeinfer.rope import Rope
from edgeinfer.verbs.tracer import Tracer, expect


@dataclasses.dataclass(frozen=True)
class Scores:
    """What else may happen to the scores of attention."""

    cap: float = 0.0  # scores become cap * tanh(scores / cap); 0: they do not
    max_bias: float = 0.0  # ALiBi: of the head with the steepest slope; 0: no ALiBi
    sinks: str | None = None  # tensor with one score for each head that stands for a key of value zero
    chunk: int = 0  # position i sees only positions from the last multiple of this on; 0: all
    biases: str | None = (
        None  # tensor, buckets x heads, of what is added to the scores of keys by how far behind they are
    )
    causal: bool = True  # position i sees no j > i; without it those that follow within the step, a whole text


BUCKETS = "attention.relative_buckets_count"
MAX_BUCKETS = 256
REACH = 128  # distance from which on all keys are in the last bucket
SEEN = 16  # positions of which a number of `choose` tells
PLAIN = Scores()
BOTH_WAYS = Scores(causal=False)


class Attention(Tracer):
    """One op each."""

    def rope(self, x: Value, rope: Rope, head_dim: int | None = None, start: int = 0) -> Value:
        """Turn columns start .. start + 2 * pairs of each head, key_dim wide if None, by its position."""
        head_dim = self.config.key_dim if head_dim is None else head_dim
        fits = x.width % head_dim == 0 and 0 <= start <= head_dim - 2 * len(rope.frequencies)
        expect(fits, f"rope of {x.width} from {start} on")
        return self._emit("rope", x.width, (x,), rope=rope, head_dim=head_dim, start=start)

    def temper(self, x: Value, scale: float, floor: int, offset: int = 0) -> Value:
        """x * (1 + scale * log(1 + floor((position + offset) / floor)))"""
        return self._emit("temper", x.width, (x,), scale=scale, floor=floor, offset=offset)

    def attend(
        self,
        q: Value,
        k: Value | None,
        v: Value | None,
        layer: int,
        window: int = 0,
        scale: float | None = None,
        scores: Scores = PLAIN,
        seen: Value | None = None,
        text: bool = False,
        stride: int = 1,
        logs: bool = False,
    ) -> Value:
        """Attention over the sequence's K and V of `layer`, which k and v are appended to first.

        Without k and v it is over those that an earlier op has appended to `layer`, or, where `text`, over all that the
        reader has stored as `layer` of the text that is answered.  It is causal, position i seeing
        j <= i, but where `scores` or the file's attention.causal says otherwise.  A window W lets position i see j
        where |i - j| < W; 0 lets it see all.  `scale` of the scores is 1 / sqrt(key_dim) if None.  `seen`, from
        `choose`, are the only positions that count, for all heads or for those of each KV head; what is not seen
        without stays unseen.  `stride`: only the K and V of each stride-th position are kept, one for the pool of
        positions that ends there; `seen` then tells of pools.  `logs`: behind the heads' outcomes stand the logarithms
        of their weights' sums, by which `together` sums attention to keys of several kinds.
        """
        heads = self.config.heads
        expect(heads > 0 and q.width % heads == 0, f"attend with {heads} heads of {q.width}")
        key_dim, sets = q.width // heads, 0
        if k is None or v is None:
            kind, ops = ("store", self.reader) if text else ("attend", self.ops)
            found = (op.attrs for op in reversed(ops) if op.kind == kind and op.attrs["layer"] == layer)
            source = next(found, {})
            expect(source.get("key_dim") == key_dim, f"attend over the K and V of layer {layer}")
            kv_heads, value_dim = source["kv_heads"], source["value_dim"]
            ins: tuple[Value, ...] = (q,)
        else:
            kv_heads, ins = k.width // key_dim, (q, k, v)
            fits = kv_heads > 0 and (heads % kv_heads, k.width % key_dim, v.width % kv_heads) == (0, 0, 0)
            expect(fits, f"attend over {q.width}, {k.width}, {v.width} with {heads} heads")
            value_dim = v.width // kv_heads
            if seen is not None:
                each = seen_width(self.n_ctx // stride)
                sets = seen.width // max(each, 1)
                fits = seen.width == sets * each and sets in (1, kv_heads)
                expect(fits, f"attend to positions of {seen.width} numbers")
                ins += (seen,)
        buckets = self.keys.integer(BUCKETS, least=4, most=MAX_BUCKETS) if scores.biases else 0
        causal = scores.causal and self.keys.flag("attention.causal", True)
        return self._emit(
            "attend",
            heads * (value_dim + logs),
            ins,
            self._per_head(scores, heads, buckets),
            layer=layer,
            window=window,
            stride=stride,
            logs=logs,
            heads=heads,
            kv_heads=kv_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            scale=key_dim**-0.5 if scale is None else scale,
            cap=scores.cap,
            slopes=alibi_slopes(heads, scores.max_bias),
            buckets=t5_buckets(buckets, causal) if buckets else (),
            chunk=scores.chunk,
            sets=sets,
            causal=causal or text,
            text=text,
        )

    def store(self, k: Value, v: Value, layer: int) -> None:
        """Have the reader store K and V of a text, with heads of key_dim, as `layer` of what its answer attends to."""
        kv_heads = k.width // self.config.key_dim
        fits = kv_heads > 0 and k.width % self.config.key_dim == v.width % kv_heads == 0
        expect(fits, f"K and V of {k.width}, {v.width} to store")
        dims: dict[str, Any] = {"key_dim": self.config.key_dim, "value_dim": v.width // kv_heads}
        self._emit("store", 0, (k, v), layer=layer, window=0, stride=1, kv_heads=kv_heads, **dims)

    def _per_head(self, scores: Scores, heads: int, buckets: int) -> tuple[str, ...]:
        """The tensor of sinks or of biases; a layer without biases of its own has those of the one before."""
        if scores.biases is None:
            return () if scores.sinks is None else self._weight(scores.sinks, heads)
        biased = (op.weights for op in reversed(self.ops) if op.kind == "attend" and op.attrs["buckets"])
        earlier = None if self.has(scores.biases) else next(biased, None)
        return earlier or self._weight(scores.biases, buckets, heads)

    def rate(self, q: Value, k: Value, w: Value | None, layer: int, stride: int = 1) -> Value:
        """A score of every position j up to a token's own, of others -inf: sum over heads of w * relu(q . k[j]), or
        where w is None, q . k[j] for each head, side by side.

        k, one head, is appended to those of the layer's indexer first.  `stride`: of `attend`."""
        heads = q.width // k.width
        expect(q.width == heads * k.width and (w is None or w.width == heads), f"rate of {q.width}, {k.width}")
        kept: dict[str, Any] = {"layer": -1 - layer, "window": 0, "stride": stride}
        kept |= {"kv_heads": 1, "key_dim": k.width, "value_dim": 0}
        width = SEEN * seen_width(self.n_ctx // stride) * (heads if w is None else 1)
        return self._emit("rate", width, (q, k) if w is None else (q, k, w), heads=heads, **kept)

    def choose(
        self, scores: Value, count: int, block: int = 1, local: int = 0, pooled: bool = False, stride: int = 1
    ) -> Value:
        """The `count` positions with the best scores, of equal ones the first; all where there are no more.

        Of blocks it is so many blocks, which are as good as their best position, and the last `local` ones are among
        them; of blocks `pooled` so many whole ones, which are as good as their last position, and besides all of one
        that is not whole yet.  A number says by its bits which of 16 positions are chosen; scores of several heads are
        told apart.  `stride`: of `rate`, whose scores are of pools then."""
        width = SEEN * seen_width(self.n_ctx // stride)
        fits = block == 1 or (SEEN % block == 0 if pooled else block % SEEN == 0 and width % block == 0)
        expect(fits and count > 0, f"choose {count} blocks of {block} positions")
        sets = scores.width // width
        blocks = {"count": count, "block": block, "local": local, "pooled": pooled, "stride": stride}
        return self._emit("choose", scores.width // SEEN, (scores,), (), sets=sets, **blocks)


def seen_width(n_ctx: int) -> int:
    """Numbers that say which positions of a context are seen; there are whole chunks of attention of them."""
    return -(-n_ctx // 256) * 16


def alibi_slopes(heads: int, max_bias: float) -> tuple[float, ...]:
    """The slope of each head, https://arxiv.org/abs/2108.12409: a geometric series for the largest power of two, and
    every second number of a finer one for the heads beyond; none where max_bias is 0."""
    if not max_bias:
        return ()
    whole = 2 ** int(math.log2(heads))
    coarse = [2 ** (-max_bias * (i + 1) / whole) for i in range(whole)]
    fine = [2 ** (-max_bias * (2 * i + 1) / (2 * whole)) for i in range(heads - whole)]
    return tuple(coarse + fine)


def t5_buckets(count: int, causal: bool) -> tuple[int, ...]:
    """The bucket of keys that lie -REACH .. REACH positions behind, https://arxiv.org/abs/1910.10683: the first half
    is for those behind, the other for those ahead, or where none of these is seen all are for those behind; of each the
    first half for one distance each, in the other distances grow as powers.  In float32, as its authors have it."""
    half = count if causal else count // 2
    exact = half // 2
    distances = np.arange(REACH + 1, dtype=np.float32)
    powers = np.log(np.maximum(distances, exact) / np.float32(exact)) / np.float32(math.log(REACH / exact))
    far = np.minimum(exact + (powers * np.float32(half - exact)).astype(np.int64), half - 1)
    buckets = np.where(distances < exact, distances.astype(np.int64), far).tolist()
    return (*(0 if causal else half + bucket for bucket in buckets[:0:-1]), *buckets)
