"""DeepSeek V3.2: DeepSeek V3's layers, with an indexer that picks the positions worth attending to, 2048 of them.

Source: https://arxiv.org/abs/2512.02556.  Here attention is over all positions, which is the same up to as many tokens
as are picked; beyond, a warning says so.
"""

import warnings

from edgeinfer.models import deepseek2
from edgeinfer.plan import Builder, Value

INDEXER = ("k_norm", "proj", "attn_k", "attn_q_b")


def forward(b: Builder) -> Value:
    picked = b.keys.integer("attention.indexer.top_k")
    for layer in range(b.config.layers):
        b.ignore(*(f"blk.{layer}.indexer.{name}" for name in INDEXER))
    if b.n_ctx > picked:
        warnings.warn(
            f"{b.config.arch} attends to {picked} picked positions; edgeinfer attends to all, so answers may differ "
            "where more are read",
            stacklevel=2,
        )
    return deepseek2.forward(b)
