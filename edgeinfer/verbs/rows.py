"""Verbs that do each token's row by itself: embeddings, norms, linear layers, activations, arithmetic, columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from edgeinfer.errors import UnsupportedError
from edgeinfer.op import Value
from edgeinfer.verbs.tracer import Tracer, expect

GATES = ("silu", "gelu", "gelu_erf", "relu", "oss")
POOLINGS = ("mean", "cls", "last")
BERT_SEPARATOR = 102  # where the file names none
ACTIVATIONS = ("silu", "gelu", "gelu_erf", "relu", "relu2", "sigmoid", "tanh", "softplus", "exp", "sqrt", "xielu")


class Rows(Tracer):
    """One op each."""

    def embed(
        self,
        name: str = "token_embd",
        scale: float = 1.0,
        width: int | None = None,
        instead: Mapping[int, int] = MappingProxyType({}),
    ) -> Value:
        """Rows of a table by token id, times `scale`, for some ids those of others; `width` is dim if None."""
        width, vocab = self.config.dim if width is None else width, self.config.vocab
        expect(all(0 <= id < vocab for id in (*instead, *instead.values())), f"ids of {vocab} tokens beyond them")
        table = self._weight(name, vocab, width)
        return self._emit("embed", width, (), table, scale=scale, instead=tuple(instead.items()))

    def marks(self, numbers: Mapping[int, float], other: float) -> Value:
        """One number by token id, `other` for those without one of their own."""
        expect(all(0 <= id < self.config.vocab for id in numbers), f"marks of {self.config.vocab} tokens")
        return self._emit("marks", 1, numbers=tuple(numbers.items()), other=other, vocab=self.config.vocab)

    def positions(self, name: str) -> Value:
        """Rows of a table by position in the sequence; there is one for each position of the context."""
        if self.n_ctx > self.config.context:
            raise UnsupportedError(f"{name} has {self.config.context} positions, fewer than a context of {self.n_ctx}")
        return self._emit("positions", self.config.dim, (), self._weight(name, self.config.context, self.config.dim))

    def segments(self, name: str) -> Value:
        """Rows of a table by the number of the text a token is in: 0, or 1 in the second text of a pair.

        The second begins behind the first [SEP]; other tokenizers than BERT's own tell no texts apart.
        """
        file = self.keys.file
        tells = file.get("tokenizer.ggml.model", str) == "bert"
        separator = file.get("tokenizer.ggml.seperator_token_id", int, BERT_SEPARATOR) if tells else -1
        count = file.get("tokenizer.ggml.token_type_count", int)
        table = self._weight(name, count, self.config.dim)
        return self._emit("segments", self.config.dim, (), table, separator=separator, count=count)

    def norm(self, x: Value, name: str | None = None, size: int | None = None, eps: float | None = None) -> Value:
        """RMS norm of each group of `size` columns, or of the row: x / sqrt(mean(x^2) + eps) * w."""
        return self._norm("norm", x, name, size, eps)

    def layer_norm(self, x: Value, name: str | None = None, size: int | None = None, eps: float | None = None) -> Value:
        """Layer norm of each group of `size` columns, or of the row: (x - mean) / sqrt(variance + eps) * w, plus
        `name`.bias where the file has it."""
        return self._norm("layer_norm", x, name, size, eps)

    def l2_norm(self, x: Value, size: int, eps: float) -> Value:
        """Each group of `size` columns divided by its length, but by no less than eps."""
        return self._norm("l2_norm", x, None, size, eps)

    def softmax(self, x: Value, size: int | None = None) -> Value:
        """exp(x) divided by its sum, of each group of `size` columns or of the row."""
        size = x.width if size is None else size
        expect(x.width % size == 0, f"softmax over {size} of {x.width}")
        return self._emit("softmax", x.width, (x,), size=size)

    def sinkhorn(self, x: Value, side: int, turns: int, eps: float) -> Value:
        """A matrix of side x side, row by row, whose rows and columns nearly sum to 1: the softmax of each row, plus
        eps, then `turns` times all columns and before each but the first all rows divided by their sums plus eps."""
        expect(x.width == side * side, f"sinkhorn of {side} rows of {x.width}")
        return self._emit("sinkhorn", x.width, (x,), side=side, turns=turns, eps=eps)

    def linear(self, x: Value, name: str, width: int, bias: str | None = None) -> Value:
        """x @ w.T, `width` wide, plus `name`.bias where the file has it, or plus the tensor `bias`.weight.

        The matrix of a linear layer one wide may be a vector.  Where the file has `name`.scale, the matrix is that
        times what is stored.
        """
        shapes = [(width, x.width)] + [(x.width,)] * (width == 1)
        weights = self._tensor(f"{name}.weight", *shapes)
        added = f"{name}.bias" if bias is None else f"{bias}.weight"
        biases = self._optional(added, width) if bias is None else self._tensor(added, (width,))
        if not self._scaled(name):
            return self._emit("linear", width, (x,), weights + biases)
        y = self.times(self._emit("linear", width, (x,), weights), f"{name}.scale")
        return self.plus(y, added) if biases else y

    def head_linear(self, x: Value, name: str, heads: int, width: int) -> Value:
        """A linear layer, `width` wide, for each of `heads` equal parts of x; the tensor is heads x width x part, or
        those matrices one below the other."""
        expect(x.width % heads == 0, f"head_linear of {heads} heads of {x.width}")
        part = x.width // heads
        weights = self._tensor(f"{name}.weight", (heads, width, part), (heads * width, part))
        return self._emit("head_linear", heads * width, (x,), weights, heads=heads)

    def split(self, x: Value, start: int, width: int, size: int | None = None) -> Value:
        """Columns start .. start + width of each group of `size` columns, or of the row."""
        size = x.width if size is None else size
        fits = 0 <= start and start + width <= size and x.width % size == 0
        expect(fits, f"split {start}..{start + width} of {size} of {x.width}")
        return self._emit("split", x.width // size * width, (x,), start=start, size=size)

    def join(self, *xs: Value, groups: int = 1) -> Value:
        """Side by side; with `groups`, each x is that many equal parts, and the first parts come first."""
        expect(all(x.width % groups == 0 for x in xs), f"join of {groups} groups of {[x.width for x in xs]}")
        return self._emit("join", sum(x.width for x in xs), xs, groups=groups)

    def repeat(self, x: Value, times: int, size: int | None = None) -> Value:
        """Each group of `size` columns, or the row, `times` times in a row."""
        size = x.width if size is None else size
        expect(x.width % size == 0, f"repeat of {size} of {x.width}")
        return self._emit("repeat", times * x.width, (x,), times=times, size=size)

    def fill(self, x: Value, numbers: Sequence[float]) -> Value:
        """As many rows as x has, all of them these numbers."""
        return self._emit("fill", len(numbers), (x,), numbers=tuple(numbers))

    def activate(self, x: Value, act: str, **constants: float) -> Value:
        """act(x), one of ACTIVATIONS; "gelu" is in its tanh form, "gelu_erf" exact, "relu2" relu(x)^2; "xielu" has
        constants."""
        expect(act in ACTIVATIONS, f"activation {act}")
        attrs: dict[str, Any] = {"act": act, **constants}
        return self._emit("activate", x.width, (x,), **attrs)

    def gated(self, gate: Value, up: Value, act: str) -> Value:
        """act(gate) * up, act one of GATES; "oss" is GPT-OSS's clamped swish, over (up + 1)."""
        expect(gate.width == up.width and act in GATES, f"gated {act} of {gate.width} and {up.width}")
        return self._emit("gated", up.width, (gate, up), act=act)

    def add(self, x: Value, y: Value) -> Value:
        expect(x.width == y.width, f"add of {x.width} and {y.width}")
        return self._emit("add", x.width, (x, y))

    def mul(self, x: Value, y: Value) -> Value:
        """x * y; a narrower y has one number for each of its y.width equal groups of columns of x."""
        expect(x.width % y.width == 0, f"mul of {x.width} and {y.width}")
        return self._emit("mul", x.width, (x, y))

    def plus(self, x: Value, tensor: str) -> Value:
        """x + w, the tensor, given with its ending, that holds as many numbers as x is wide."""
        return self._emit("plus", x.width, (x,), self._numbers(tensor, x.width))

    def times(self, x: Value, tensor: str, groups: int = 1) -> Value:
        """x * w, the tensor, given with its ending, that holds as many numbers as x is wide or one for each of `groups`
        equal groups of columns."""
        expect(x.width % groups == 0, f"times of {x.width} in {groups}")
        return self._emit("times", x.width, (x,), self._numbers(tensor, x.width, groups))

    def dot(self, x: Value, y: Value, groups: int = 1) -> Value:
        """Sum of x * y over each of `groups` equal groups of columns: groups wide."""
        expect(x.width == y.width and x.width % groups == 0, f"dot of {x.width} and {y.width} in {groups}")
        return self._emit("dot", groups, (x, y))

    def sparsify(self, x: Value, deviations: float) -> Value:
        """relu(x - mean - deviations * standard deviation), both of the row: only its largest numbers remain."""
        return self._emit("sparsify", x.width, (x,), deviations=deviations)

    def scale(self, x: Value, factor: float) -> Value:
        """x * factor; x itself where that is 1."""
        return x if factor == 1.0 else self._emit("scale", x.width, (x,), factor=factor)

    def clamp(self, x: Value, limit: float) -> Value:
        """Within -limit .. limit."""
        return self._emit("clamp", x.width, (x,), limit=limit)

    def softcap(self, x: Value, cap: float) -> Value:
        """cap * tanh(x / cap); x itself where cap is 0."""
        return self._emit("softcap", x.width, (x,), cap=cap) if cap else x

    def outputs(self, x: Value) -> Value:
        """Only the rows that need logits; all where they are to be pooled."""
        return x if self.pools else self._emit("outputs", x.width, (x,))

    def pool(self, x: Value, kind: str) -> Value:
        """One row for each sequence of the step: the mean of its rows, its first (cls) or its last."""
        expect(kind in POOLINGS, f"pooling {kind}")
        return self._emit("pool", x.width, (x,), pooling=kind)

    def _norm(self, kind: str, x: Value, name: str | None, size: int | None, eps: float | None) -> Value:
        """A norm's weights are one vector for all groups or one for each."""
        size = x.width if size is None else size
        expect(x.width % size == 0, f"{kind} over {size} of {x.width}")
        weights: tuple[str, ...] = ()
        if name is not None:
            shapes = (size,), (x.width,), (x.width // size, size)
            weights = self._tensor(f"{name}.weight", *shapes)
            if kind == "layer_norm" and self.has(name, "bias"):
                weights += self._tensor(f"{name}.bias", *shapes)
        return self._emit(kind, x.width, (x,), weights, eps=self.config.eps if eps is None else eps, size=size)
