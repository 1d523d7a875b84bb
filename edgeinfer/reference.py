"""ReferenceBackend: a plan run in plain numpy float32, one function per op kind.  It defines what a plan means.

Short and obvious, never optimised: every other backend is tested against it.  The op kinds are in `reference_ops/`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgeinfer.backend import Chunk, Top, answering, check_step, full_step_top
from edgeinfer.errors import BackendError, RequestError
from edgeinfer.plan import Plan
from edgeinfer.reference_ops import OPS
from edgeinfer.reference_ops.step import Array, Held, Step, Weights


class ReferenceBackend:
    """See `edgeinfer.backend.Backend`.  What is kept is kept of all tokens, so `cut` never loses anything."""

    def __init__(self, plan: Plan, n_ctx: int, n_batch: int, n_seq: int) -> None:
        self.n_ctx, self.n_batch, self.n_seq = n_ctx, n_batch, n_seq
        self.n_vocab = plan.config.vocab
        self.plan = plan
        self._weights = Weights(plan.tensors)
        self._held: dict[int, Held] = {}
        self._reader = ReferenceBackend(plan.reader, n_ctx, n_ctx, 1) if plan.reader else None

    def open(self) -> int:
        free = [seq for seq in range(self.n_seq) if seq not in self._held]
        if not free:
            raise BackendError(f"all {self.n_seq} sequences are in use")
        self._held[free[0]] = Held()
        return free[0]

    def close_sequence(self, seq: int) -> None:
        self._of(seq)
        del self._held[seq]

    def close(self) -> None:
        self._held.clear()
        self._weights = Weights({})

    def length(self, seq: int) -> int:
        return self._of(seq).length

    def cut(self, seq: int, length: int) -> int:
        held = self._of(seq)
        if not 0 <= length <= held.length:
            raise RequestError(f"a sequence of {held.length} tokens cannot be cut to {length}")
        self._held[seq] = held.cut(length)
        return length

    def read_text(self, seq: int, ids: Sequence[int]) -> None:
        reader = answering(self._reader)
        self.cut(seq, 0)
        self._held[seq], reader._held[0] = Held(), Held()
        reader.step([Chunk(0, ids, 0)], np.empty((0, reader.plan.width), np.float32))
        self._held[seq].text = reader._held[0].text

    def has_text(self, seq: int) -> bool:
        return bool(self._of(seq).text)

    def step(self, chunks: Sequence[Chunk], logits: Array) -> None:
        check_step(self, chunks, logits)
        step = Step(self._weights, chunks, [self._of(chunk.seq) for chunk in chunks])
        values: dict[int, Array] = {}
        with np.errstate(invalid="ignore", over="ignore"):  # weights that are not finite give logits that are not
            for op in self.plan.ops:
                values[op.out.id] = OPS[op.kind](op, step, *(values[x.id] for x in op.ins))
        for chunk, held in zip(chunks, step.held, strict=True):
            held.length += len(chunk.ids)
        logits[:] = values[self.plan.ops[-1].out.id]

    def step_top(self, chunk: Chunk, k: int) -> Top:
        return full_step_top(self, chunk, k)

    def _of(self, seq: int) -> Held:
        if seq not in self._held:
            raise RequestError(f"sequence {seq} is not open")
        return self._held[seq]
