"""Target: the plan of a model, and what it says of the memory that a run takes."""

from __future__ import annotations

import random

from edgeinfer import memory
from edgeinfer import plan as plans
from edgeinfer.formats import gguf
from tests.fuzz import gguf_changes, seeds
from tests.fuzz.place import placed


def make(rng: random.Random) -> bytes:
    return gguf_changes.changed(rng, rng.choice(seeds.models()), seeds.models())


def run(case: bytes) -> None:
    with placed(case) as path, gguf.open(path) as file:
        traced = plans.trace(file)
        assert traced.pooling or traced.width == traced.config.vocab
        n_ctx = memory.default_context(traced, "f16", 512)
        assert 1 <= n_ctx <= traced.config.context
        plans.trace(file, n_ctx)
        memory.check(traced, "q8_0", n_ctx, 512)
        plans.trace(file, n_ctx, "mean")
