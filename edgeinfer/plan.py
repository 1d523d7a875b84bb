"""Plan: the straight-line list of operations of one forward pass, written down once by an architecture function.

An architecture is plain maths over the verbs of a `Builder`; each verb checks the tensors it uses against the widths
that flow through it and appends an `Op`.  What an op kind computes is defined by `edgeinfer/reference.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from edgeinfer import config as model_config
from edgeinfer import models
from edgeinfer.config import ModelConfig
from edgeinfer.errors import FormatError, RequestError
from edgeinfer.formats.gguf import GgufFile, Tensor
from edgeinfer.op import Op, Value
from edgeinfer.verbs.blocks import Builder

__all__ = ["Builder", "Op", "Plan", "Value", "stated_pooling", "trace"]

POOLING_TYPES = {0: "", 1: "mean", 2: "cls", 3: "last", 4: "rank"}  # by the number in the key pooling_type
CLASSIFIER = ("cls", "cls.norm", "cls.output")  # tensors of what ranks


@dataclasses.dataclass(frozen=True)
class Plan:
    """`ops` in order of execution; `tensors` are the ones that the ops name.

    The last op's out is the logits of the rows wanted, or, with a `pooling`, one row for each sequence of a step: an
    embedding, or a score if it is "rank".  Where there is a `reader`, the plan's tokens are those of an answer, which
    begins with the token `start`, to a text that this other plan has read before.
    """

    ops: tuple[Op, ...]
    config: ModelConfig
    tensors: Mapping[str, Tensor]
    pooling: str = ""
    reader: Plan | None = None
    start: int = 0

    @functools.cached_property
    def width(self) -> int:
        """Of the last op's out."""
        return self.ops[-1].out.width

    @functools.cached_property
    def causal(self) -> bool:
        """Whether no token depends on those that follow it; if not, a text is to be read in one step."""
        return _causal(self.ops)

    @functools.cached_property
    def kept(self) -> list[Mapping[str, Any]]:
        """The attrs of ops that append keys and values, of one op for each layer."""
        return list({op.attrs["layer"]: op.attrs for op in self.ops if op.caches}.values())

    @property
    def goes_on(self) -> bool:
        """Whether the model goes on from a text, token after token."""
        return self.causal and not self.reader

    def check_generates(self) -> None:
        """RequestError where the model is made for something else."""
        if self.pooling or not self.causal:
            what = "rank texts (LLM.rerank)" if self.pooling == "rank" else "embed texts (LLM.embed)"
            raise RequestError(f"this {self.config.arch} model is made to {what}, and cannot generate")

    def check_continues(self) -> None:
        """RequestError where it is made for something else than going on from a text."""
        self.check_generates()
        if self.reader:
            raise RequestError(f"this {self.config.arch} model answers texts, and says nothing of how a text goes on")


def trace(file: GgufFile, n_ctx: int | None = None, pooling: str | None = None) -> Plan:
    """The plan of the model in `file`.

    `n_ctx` is the context of the run in tokens (the model's own if None); it selects LongRoPE's factors and nothing
    else.  `pooling` has the plan end in embeddings pooled so, one of POOLINGS, or in scores, "rank"; None is what the
    model is made for.  FormatError where keys or tensors are missing or do not fit together, UnsupportedError where the
    architecture or a tensor's type is not known, RequestError where a model without a classifier is to rank.  All name
    the file.
    """
    with file.naming():
        return _trace(file, n_ctx, pooling)


def _trace(file: GgufFile, n_ctx: int | None, pooling: str | None) -> Plan:
    keys = model_config.keys_of(file)
    forward = models.find(keys.arch)
    config = model_config.read(file)
    b = Builder(config, keys, config.context if n_ctx is None else n_ctx, pools=pooling is not None)
    try:
        out = forward(b)
        if pooling and b.reader:
            b.ops, b.reader, b.hidden = b.reader, [], b.text
        if pooling is None:
            pooling = stated_pooling(file, causal=False) if b.hidden is None else ""
        out = _tail(b, out if b.hidden is None else b.hidden, pooling) if pooling else _without_classifier(b, out)
    except ArithmeticError as error:  # such as a division by a count of 0
        raise FormatError(f"no {config.arch} model can have the numbers this file states: {error}") from None
    b.finish()
    if out != b.ops[-1].out or not (pooling or out.width == config.vocab):
        raise AssertionError(f"the file of {config.arch} in models/ must end with the logits, {config.vocab} wide")
    reader = Plan(_by_turns(b.reader), config, _tensors(file, b.reader)) if b.reader else None
    ops = _by_turns(b.ops) if pooling or not _causal(b.ops) else tuple(b.ops)
    return Plan(ops, config, _tensors(file, ops), pooling, reader, b.start)


def _causal(ops: Sequence[Op]) -> bool:
    return all(op.attrs["causal"] for op in ops if op.kind == "attend")


def _by_turns(ops: Sequence[Op]) -> tuple[Op, ...]:
    """The same ops for texts that are read in one step: layers of one shape have the same number, so that each has its
    K and V where those of the one before were, which nobody wants any more; but where another op does."""
    wanted = {op.attrs["layer"] for op in ops if op.kind == "store" or ("layer" in op.attrs and not op.caches)}
    first: dict[tuple[object, ...], int] = {}

    def placed(op: Op) -> Op:
        if not op.caches or op.attrs["layer"] in wanted:
            return op
        shape = (op.kind, *(op.attrs[name] for name in ("window", "stride", "kv_heads", "key_dim", "value_dim")))
        layer = first.setdefault(shape, op.attrs["layer"])
        return dataclasses.replace(op, attrs={**op.attrs, "layer": layer})

    return tuple(map(placed, ops))


def _tensors(file: GgufFile, ops: Sequence[Op]) -> dict[str, Tensor]:
    return {name: file.tensors[name] for op in ops for name in op.weights}


def stated_pooling(file: GgufFile, causal: bool) -> str:
    """How the rows of a text become one, as the file says: one of POOLINGS, or "rank" where it is made to rank.

    Where it does not say: the last row in a causal model, for no other has seen the whole text; else the mean.
    """
    default = "last" if causal else "mean"
    key = f"{file.get('general.architecture', str)}.pooling_type"
    number = file.get(key, int, 0)
    if number not in POOLING_TYPES:
        raise FormatError(f"{key} is {number}, known are: {list(POOLING_TYPES)}")
    return POOLING_TYPES[number] or default


def _tail(b: Builder, hidden: Value, pooling: str) -> Value:
    """From the rows before any output matrix to one row for each text."""
    del b.ops[hidden.id + 1 :]
    if pooling == "rank":
        rank = models.part(b.keys.arch, "rank")
        if rank is None or not any(map(b.has, CLASSIFIER)):
            raise RequestError(f"this {b.keys.arch} model has no classifier, cls or cls.output, to rank with")
        return rank(b, hidden)
    row = _without_classifier(b, b.pool(hidden, pooling))
    project = models.part(b.keys.arch, "project")
    return row if project is None else project(b, row)


def _without_classifier(b: Builder, out: Value) -> Value:
    if models.part(b.keys.arch, "rank"):
        b.ignore(*CLASSIFIER)
    return out
