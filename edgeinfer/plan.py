"""Plan: the straight-line list of operations of one forward pass, written down once by an architecture function.

An architecture is plain maths over the verbs of a `Builder`; each verb checks the tensors it uses against the widths
that flow through it and appends an `Op`.  What an op kind computes is defined by `edgeinfer/reference.py`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from edgeinfer import config as model_config
from edgeinfer import models
from edgeinfer.config import ModelConfig
from edgeinfer.errors import FormatError
from edgeinfer.formats.gguf import GgufFile, Tensor
from edgeinfer.op import Op, Value
from edgeinfer.verbs.blocks import Builder

__all__ = ["Builder", "Op", "Plan", "Value", "trace"]


@dataclasses.dataclass(frozen=True)
class Plan:
    """`ops` in order of execution, the last one's out the logits; `tensors` are the ones that the ops name."""

    ops: tuple[Op, ...]
    config: ModelConfig
    tensors: Mapping[str, Tensor]


def trace(file: GgufFile, n_ctx: int | None = None) -> Plan:
    """The plan of the model in `file`.

    `n_ctx` is the context of the run in tokens (the model's own if None); it selects LongRoPE's factors and nothing
    else.  FormatError where keys or tensors are missing or do not fit together, UnsupportedError where the architecture
    or a tensor's type is not known.
    """
    keys = model_config.keys_of(file)
    forward = models.find(keys.arch)
    config = model_config.read(file)
    _check_layers(config, file.tensors)
    b = Builder(config, keys, config.context if n_ctx is None else n_ctx)
    try:
        logits = forward(b)
    except ArithmeticError as error:  # such as a division by a count of 0
        raise FormatError(f"no {config.arch} model can have the numbers this file states: {error}") from None
    b.finish()
    if logits != b.ops[-1].out or logits.width != config.vocab:
        raise AssertionError(f"the file of {config.arch} in models/ must end with the logits, {config.vocab} wide")
    return Plan(tuple(b.ops), config, {name: file.tensors[name] for op in b.ops for name in op.weights})


def _check_layers(config: ModelConfig, tensors: Mapping[str, Tensor]) -> None:
    numbers = [int(m[1]) for m in (re.match(r"blk\.(\d{1,9})\.", name) for name in tensors) if m]
    layers = 1 + max(numbers, default=-1)
    if layers != config.layers:
        raise FormatError(f"{config.arch}.block_count is {config.layers}, but the file has tensors of {layers} layers")
