"""How much memory a plan takes: the KV of a sequence at a context, and the buffers of a step.

The weights are not counted: they are pages of the mapped file, which the system drops and reads again as it needs.
Figures in bytes; in texts MB are millions of bytes."""

import warnings
from bisect import bisect_right

from edgeinfer import machine, state
from edgeinfer.errors import BackendError, RequestError
from edgeinfer.plan import Plan
from edgeinfer.simd_kernels.layout import BLOCK

SHARE = 4  # a context nobody asked for takes at most this fraction of the memory available
GRAIN = 256  # tokens; such a context is a multiple of this
KV_TYPES = {"f32": (1, 4), "f16": (1, 2), "q8_0": (32, 34)}  # elements and bytes of a block


def check_kv_type(kv_type: str) -> None:
    """RequestError for an unknown type."""
    if kv_type not in KV_TYPES:
        raise RequestError(f"kv_type is {kv_type!r}; must be one of {', '.join(KV_TYPES)}")


def kv_bytes(plan: Plan, kv_type: str, n_ctx: int, n_batch: int) -> int:
    """KV and recurrent states of one sequence, and of the text it answers.  A sliding-window layer keeps its window
    and one step.

    RequestError for an unknown type."""
    check_kv_type(kv_type)
    elements, size = KV_TYPES[kv_type]
    total = state.sequence_bytes(plan.ops) + (kv_bytes(plan.reader, kv_type, n_ctx, n_ctx) if plan.reader else 0)
    for attrs in plan.kept:
        window = attrs["window"]
        tokens = min(n_ctx, window + n_batch) if window else n_ctx // attrs["stride"]
        row = sum(-(-attrs[dim] // elements) * size for dim in ("key_dim", "value_dim"))
        total += -(-tokens // BLOCK) * BLOCK * attrs["kv_heads"] * row
    return total


def buffer_bytes(plan: Plan, n_batch: int, n_ctx: int) -> int:
    """The float32 values of a step: those of one layer, as layers use the same buffers, and one row of logits; and of
    the step that reads a text to answer."""
    widths = sum(op.out.width for op in plan.ops[:-1])
    reader = buffer_bytes(plan.reader, n_ctx, n_ctx) if plan.reader else 0
    return reader + 4 * (n_batch * -(-widths // plan.config.layers) + plan.ops[-1].out.width)


def context(plan: Plan, n_ctx: int | None, kv_type: str, n_batch: int) -> int:
    """Tokens of the context: `n_ctx`, or what the model states where that is less, with a warning; None is
    `default_context`."""
    stated = plan.config.context
    if n_ctx is None:
        return default_context(plan, kv_type, n_batch)
    if n_ctx > stated:
        warnings.warn(f"n_ctx {n_ctx} is lowered to the {stated} tokens the model states", stacklevel=3)
    return min(int(n_ctx), stated)


def default_context(plan: Plan, kv_type: str, n_batch: int) -> int:
    """The model's context, or the largest multiple of 256 tokens whose KV takes a quarter of the memory available."""
    budget = machine.available_memory() // SHARE
    if kv_bytes(plan, kv_type, plan.config.context, n_batch) <= budget:
        return plan.config.context
    contexts = range(GRAIN, plan.config.context, GRAIN)
    fitting = bisect_right(contexts, budget, key=lambda n_ctx: kv_bytes(plan, kv_type, n_ctx, n_batch))
    return contexts[fitting - 1] if fitting else min(GRAIN, plan.config.context)


def check(plan: Plan, kv_type: str, n_ctx: int, n_batch: int) -> None:
    """BackendError that names the figures where one sequence of n_ctx tokens does not fit into the memory available."""
    kv, buffers = kv_bytes(plan, kv_type, n_ctx, n_batch), buffer_bytes(plan, n_batch, n_ctx)
    available = machine.available_memory()
    if kv + buffers > available:
        raise BackendError(
            f"a context of {n_ctx} tokens needs {megabytes(kv + buffers)} MB (KV in {kv_type} {megabytes(kv)} MB, "
            f"buffers {megabytes(buffers)} MB) and {megabytes(available)} MB are available; give a smaller n_ctx"
        )


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f}"
