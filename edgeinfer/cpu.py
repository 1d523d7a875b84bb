"""CpuBackend: a plan on SIMD kernels.  All is laid out at load; a step fills in a few numbers and makes one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from edgeinfer import machine, memory, screen, selection
from edgeinfer.backend import Chunk, Top, answering, check_step, full_step_top, top
from edgeinfer.errors import BackendError, RequestError
from edgeinfer.kvcache import KVCache, Layer
from edgeinfer.lower import Lowering, resolve
from edgeinfer.lowering.nodes import Boards, Buffer
from edgeinfer.models import catalog
from edgeinfer.plan import Plan
from edgeinfer.simd_kernels import cpu, guard, layout, pack, record
from edgeinfer.simd_kernels.numbers import Numbers
from edgeinfer.simd_kernels.workers import Program, Workers
from edgeinfer.spans import Span, Trace
from edgeinfer.state import States
from edgeinfer.step import RopeTable, Step

HUGE = 8 << 20  # bytes of activations worth huge pages, the first of which a single token would take whole


class CpuBackend:
    """See `edgeinfer.backend.Backend`.

    n_threads workers; kv_type "f32", "f16" or "q8_0"; steps of at most n_batch tokens; n_seq sequences of n_ctx
    tokens; deterministic: logits of a token do not depend on what else is in its step, by one bit."""

    def __init__(
        self,
        plan: Plan,
        n_ctx: int,
        n_threads: int,
        kv_type: str,
        n_batch: int,
        n_seq: int,
        deterministic: bool = False,
    ) -> None:
        self.n_ctx, self.n_batch, self.n_seq = n_ctx, min(n_batch, n_ctx), n_seq
        self.n_vocab = plan.config.vocab
        self.tier = cpu.host().tier
        self.plan, self.kv_type = plan, kv_type
        sizes = ("layer", "window", "kv_heads", "key_dim", "value_dim", "stride")
        layers = [Layer(*(attrs[name] for name in sizes)) for attrs in plan.kept]
        together = self.n_batch if plan.pooling else None  # texts are read in one step and given back
        self._cache = KVCache(layers, n_ctx, self.n_batch, n_seq, kv_type, together)
        self._states = States(plan.ops, n_seq)
        self._reader = reader_of(plan, n_ctx, n_threads, kv_type, n_seq, deterministic)
        texts = self._reader._cache if self._reader else None
        lowered = self._lowered = Lowering(plan, self._cache, n_threads, texts).run()
        rows = layout.up(self.n_batch, self.tier.tile_tokens)
        self._slots = [machine.pages(size, size >= HUGE) for size in (stride * rows for stride in lowered.slots)]
        self._homes: list[int] = [slot.ctypes.data for slot in self._slots]
        self._ropes = [RopeTable(rope, n_ctx) for rope in lowered.ropes]
        self._step = Step(self.n_batch, n_seq, list(self._cache.groups), plan, texts)
        self._one_row = np.broadcast_to(np.float32(0), (1, plan.width))  # logits of a step that asks for none in full
        self._scratch(n_threads, rows)
        self._sums_in_parts = not deterministic and not plan.pooling
        if deterministic:
            self._step.set(few=self.n_batch, uniform=1)
        self._assemble(n_threads, () if deterministic else self._end_kernels())

    def _scratch(self, threads: int, rows: int) -> None:
        widest = max(op.out.width for op in self.plan.ops[:-1])
        each = layout.scratch_bytes(rows, self.tier.panel_rows, widest)
        for fields in (node.fields for node in self._lowered.nodes if node.record is record.EXPERT_LINEAR):
            experts, used, cols, chunk = (int(fields[name]) for name in ("experts", "used", "cols", "chunk"))
            each = max(each, layout.up(layout.expert_scratch(experts, rows * used, cols, chunk), 4096))
        self._scratch_memory = layout.aligned(each * threads)
        self._step.set(scratch=self._scratch_memory.ctypes.data, scratch_bytes=each)
        sizes = [(op.attrs["heads"], op.attrs["value_dim"]) for op in self.plan.ops if op.kind == "attend"]
        self._parts = layout.aligned(max((layout.parts_bytes(*size, self.n_ctx) for size in sizes), default=0))
        chunks = [int(node.fields["chunk"]) for node in self._lowered.nodes if node.record is record.LINEAR]
        each = layout.up(4 * max(chunks, default=0) + 4 * layout.GROUP, 4096)
        self._results = layout.aligned(each * threads)
        self._step.set(results=self._results.ctypes.data, results_bytes=each)
        self._done = layout.aligned(8 * layout.SPLIT * max((heads for heads, _ in sizes), default=0))
        self._step.set(
            few=layout.FEW,
            parts=self._parts.ctypes.data,
            chunk_count=layout.chunk_count(self.n_ctx),
            done=self._done.ctypes.data,
        )

    def _assemble(self, threads: int, ends: tuple[str, ...]) -> None:
        """Load the kernels, write the records, start the workers."""
        nodes = self._lowered.nodes
        places = {f"rope{i}": table.address for i, table in enumerate(self._ropes)} | self._step.places()
        names = {"run", *ends, *guard.KERNELS, *(n.kernel for n in nodes)} | {
            h for n in nodes for h in n.helpers.values() if h not in places
        }
        kernels = pack.load(names, self.tier, catalog.home() / "kernels")
        guard.guard(kernels)
        counters = sum(node.counter for node in nodes)
        self._counters = Numbers(8 * counters)
        free = iter(range(self._counters.address, self._counters.address + 64 * counters, 64))
        self._boards = Boards()
        self._records = resolve(
            self._lowered,
            kernels,
            self._address,
            places,
            self._step.counts(),
            lambda: next(free),
            self._boards,
        )
        self._program = Program(self._records)
        self._outs = [
            (i, node.record.names.index(name), buffer.start)
            for i, node in enumerate(nodes)
            for name, buffer in {**node.reads, **node.writes}.items()
            if buffer.root.logits
        ]
        self._workers = Workers(threads, kernels["run"])
        self._step.set(sync=self._workers.address)
        self.use(threads, threads)
        self._selection = self._ending(kernels, screen.KERNELS[0] in ends) if ends else None

    def _end_kernels(self) -> tuple[str, ...]:
        """What the end of a step of which the largest logits are wanted needs, if it has one of its own.

        Its kernels take a row by itself, which deterministic backends do not."""
        if self.plan.ops[-1].kind != "linear" or self.plan.pooling:
            return ()
        return selection.KERNELS + ((*screen.KERNELS, self._unpacks_outputs()) if screen.fits(self.plan) else ())

    def _unpacks_outputs(self) -> str:
        """The kernel that unpacks rows of the output matrix."""
        return f"unpack.{self.plan.tensors[self.plan.ops[-1].weights[0]].type.name}"

    def _ending(self, kernels: Mapping[str, int], screened: bool) -> selection.Selection:
        before, last = self._lowered.nodes[-2:]
        linear = dict(zip(last.record.names, self._records[-1].tolist(), strict=False))
        fine = last.kernel == "linear.fine"
        x = int(self._records[-2][before.record.names.index("x")]) if fine else linear["x"]
        linear["group"] = linear["group"] if fine else 0
        view = screen.Screen(linear | {"unpack": kernels[self._unpacks_outputs()]}, x, kernels) if screened else None
        return selection.Selection(self._records[:-1], linear, kernels, view)

    def _address(self, buffer: Buffer) -> int:
        return 0 if buffer.root.logits else self._homes[buffer.root.slot] + buffer.start

    def use(self, decode: int, prefill: int) -> None:
        """Have so many of the workers, at most, take part in steps of one token and in others."""
        self._decode, self._prefill = decode, prefill
        if self._reader:
            self._reader.use(decode, prefill)

    # The Backend protocol

    def open(self) -> int:
        free = [seq for seq in range(self.n_seq) if seq not in self._cache.lengths]
        if not free:
            raise BackendError(f"all {self.n_seq} sequences are in use")
        need, there = memory.kv_bytes(self.plan, self.kv_type, self.n_ctx, self.n_batch), machine.available_memory()
        if need > there:
            needed, available = memory.megabytes(need), memory.megabytes(there)
            raise BackendError(f"a sequence of {self.n_ctx} tokens needs {needed} MB and {available} MB are available")
        if self._reader:  # whose sequences have the same numbers
            self._reader.open()
        self._cache.lengths[free[0]] = 0
        return free[0]

    def close_sequence(self, seq: int) -> None:
        self.cut(seq, 0)
        if self._reader:
            self._reader.close_sequence(seq)
        del self._cache.lengths[seq]

    def close(self) -> None:
        if self._reader:
            self._reader.close()
        self._workers.close()

    def length(self, seq: int) -> int:
        if seq not in self._cache.lengths:
            raise RequestError(f"sequence {seq} is not open")
        if self._states.broken(seq):
            self._roll_back(seq, self._cache.lengths[seq])
        return self._cache.lengths[seq]

    def cut(self, seq: int, length: int) -> int:
        held = self.length(seq)
        if not 0 <= length <= held:
            raise RequestError(f"a sequence of {held} tokens cannot be cut to {length}")
        return held if length == held else self._roll_back(seq, length)

    def _roll_back(self, seq: int, length: int) -> int:
        kept = self._cache.cut(seq, self._states.reach(seq, length))
        self._states.cut(seq, kept)
        return kept

    def read_text(self, seq: int, ids: Sequence[int]) -> None:
        reader = answering(self._reader)
        self.cut(seq, 0)
        reader.cut(seq, 0)
        reader.step([Chunk(seq, ids, 0)], np.empty((0, reader.plan.width), np.float32))

    def has_text(self, seq: int) -> bool:
        return bool(self._reader and self._reader.length(seq))

    def step(self, chunks: Sequence[Chunk], logits: np.ndarray) -> None:
        check_step(self, chunks, logits)
        out = logits if logits.flags.c_contiguous else np.empty(logits.shape, np.float32)
        lengths, run = self._begin(chunks)
        self._write_to(out)
        run(self._program)
        self._end(chunks, lengths)
        if out is not logits:
            logits[:] = out

    def step_top(self, chunk: Chunk, k: int) -> Top:
        if self._selection is None:
            return full_step_top(self, chunk, k)
        check_step(self, [chunk], self._one_row)
        lengths, run = self._begin([chunk])
        found = self._selection.run(run, k)
        if found is None:  # something is not finite: what, the linear layer says
            logits = np.empty((1, self.n_vocab), np.float32)
            self._write_to(logits)
            self._run(0, False, Program(self._records[-1:]))
            found = top(logits[0], k)
        self._selection.after_step(partial(self._run, 0, False))
        self._end([chunk], lengths)
        return found

    @property
    def spared(self) -> int:
        """Bytes of weights that the last `step_top` read less than `step` does, the view's own taken off."""
        return self._selection.spared if self._selection else 0

    def _write_to(self, logits: np.ndarray) -> None:
        for op, field, start in self._outs:
            self._program.set(op, field, logits.ctypes.data + start)
            self._program.set(op, field + 1, 4 * self.plan.width)

    def _begin(self, chunks: Sequence[Chunk]) -> tuple[list[int], Callable[[Program], None]]:
        """What is to be done before the workers take a step; the lengths of its sequences, and what runs programs of
        it."""
        single = self._single(chunks)
        if not single:
            self._workers.gather()
        lengths = [self.length(chunk.seq) for chunk in chunks]
        reach = 0
        for chunk, length in zip(chunks, lengths, strict=True):
            self._cache.grow(chunk.seq, length + len(chunk.ids))
            reach = max(reach, length + len(chunk.ids))
        self._step.fill(chunks, lengths, self._cache, self._states)
        for table in self._ropes:
            table.reach(reach)
        self._counters.clear()
        return lengths, partial(self._run, sum(len(chunk.ids) for chunk in chunks), single)

    def _end(self, chunks: Sequence[Chunk], lengths: Sequence[int]) -> None:
        """What is to be done after it."""
        for chunk, length in zip(chunks, lengths, strict=True):
            self._cache.lengths[chunk.seq] = length + len(chunk.ids)
            self._states.end(chunk.seq, length, len(chunk.ids))

    def _run(self, tokens: int, single: bool, program: Program) -> None:
        """Run a program, of a step of so many tokens if of any; `single` as of `_single`."""
        threads, late = self._decode if tokens == 1 else self._prefill, self if single else None
        self._workers.run(program.address, program.count, self._step.address, threads, late)

    def _single(self, chunks: Sequence[Chunk]) -> bool:
        """Whether a step is of one token and its logits, in which nobody waits for workers whose cores other programs
        have been given."""
        return len(chunks) == 1 == chunks[0].outputs == len(chunks[0].ids) and self._sums_in_parts

    def profile(self, chunks: Sequence[Chunk], logits: np.ndarray) -> list[Span]:
        """A `step`, and where its time went."""
        with Trace(self._workers, self._lowered.nodes) as trace:
            self.step(chunks, logits)
        return trace.spans()


def reader_of(
    plan: Plan, n_ctx: int, n_threads: int, kv_type: str, n_seq: int, deterministic: bool
) -> CpuBackend | None:
    """What reads the texts that a plan answers, each in one step; it holds them, and what it keeps of them for the
    answer."""
    return CpuBackend(plan.reader, n_ctx, n_threads, kv_type, n_ctx, n_seq, deterministic) if plan.reader else None
