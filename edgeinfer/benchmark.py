"""A model's speed, measured: prefill, decode, steps of a few rows, and where the time of a step goes."""

import os
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from edgeinfer import cost, files
from edgeinfer.backend import Chunk
from edgeinfer.cpu import CpuBackend
from edgeinfer.lowering.nodes import Node
from edgeinfer.measure import Probe
from edgeinfer.plan import trace
from edgeinfer.weights import Weights

ROUNDS = 5  # a step's operations are timed so often
T = TypeVar("T")


@dataclass(frozen=True)
class Test:
    """`prompt` tokens read at once, then `gen` tokens one by one, each the greedy choice, behind `depth` tokens; or a
    step of so many `rows`, all of which need logits, as drafts to verify do."""

    prompt: int = 0
    gen: int = 0
    depth: int = 0
    rows: int = 0

    @property
    def name(self) -> str:
        """As llama-bench names it."""
        kind = f"rows{self.rows}" if self.rows else f"pp{self.prompt}" if not self.gen else f"tg{self.gen}"
        if self.prompt and self.gen:
            kind = f"pp{self.prompt}+tg{self.gen}"
        return kind + (f" @ d{self.depth}" if self.depth else "")

    @property
    def tokens(self) -> int:
        return self.rows or self.prompt + self.gen

    @property
    def room(self) -> int:
        return self.depth + self.tokens


@dataclass
class Phase:
    """One kind of operation in a step: seconds on all threads, bytes of weights read, products of weights; and how
    many of these, whichever limits the test, the machine could have done in that time."""

    name: str
    seconds: float = 0.0
    bytes: int = 0
    products: int = 0
    possible: float = 0.0


@dataclass(frozen=True)
class Limits:
    """What the machine can do on so many threads: bytes a second from the pages where weights lie, 8-bit products a
    second."""

    read: float
    products: float

    @staticmethod
    def middle(some: Sequence["Limits"]) -> "Limits":
        """Medians."""
        return Limits(statistics.median(one.read for one in some), statistics.median(one.products for one in some))

    def of(self, test: Test) -> float:
        """What counts for a test: products for a prompt's, else bytes."""
        return self.products if test.prompt else self.read


@dataclass(frozen=True)
class Run:
    """One repetition of a test: seconds, the machine's limits beside it, and the part of them that it reached: a
    decode's bytes against reading, a prefill's products against the 8-bit peak; None for a test that is both."""

    seconds: float
    limits: Limits
    share: float | None


@dataclass
class Bench:
    """A model on so many threads.  A context manager."""

    path: str
    threads: int
    kv_type: str
    n_ctx: int
    n_batch: int = 512
    weights: str = "mmap"

    def __post_init__(self) -> None:
        self.file = files.open(self.path)
        plan = trace(self.file)
        plan.check_continues()
        if self.n_ctx > plan.config.context:
            warnings.warn(
                f"{self.n_ctx} tokens are more than the {plan.config.context} the model states: this measures what it "
                "takes, and says nothing of what comes out",
                stacklevel=2,
            )
        self.plan = Weights(self.weights).place(trace(self.file, self.n_ctx))
        self.backend = CpuBackend(self.plan, self.n_ctx, self.threads, self.kv_type, self.n_batch, 1)
        self.seq, self.probe = self.backend.open(), Probe(self.threads)
        self.logits = np.zeros((self.backend.n_batch, self.backend.n_vocab), np.float32)
        self.largest = max(self.plan.tensors.values(), key=lambda tensor: tensor.nbytes).data.reshape(-1)

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.probe.close()
        self.backend.close()
        self.file.close()

    def run(self, test: Test) -> Run:
        """One repetition."""
        self.backend.cut(self.seq, 0)
        self._read(test.depth)
        return self.watched(test, lambda: self._timed(test))

    def watched(self, test: Test, timed: Callable[[], float]) -> Run:
        """One repetition of a test that takes the seconds that `timed` gives."""
        self.spared = 0
        seconds, limits = self._beside(timed)
        return Run(seconds, limits, None if test.prompt and test.gen else self._work(test) / seconds / limits.of(test))

    def _timed(self, test: Test) -> float:
        start = time.perf_counter()
        if test.rows:
            self._step(test.rows, test.rows)
        self._read(test.prompt)
        self._generate(test.gen)
        return time.perf_counter() - start

    def _beside(self, work: Callable[[], T]) -> tuple[T, Limits]:
        """What `work` gives, and the machine's limits from right before and right after it: a core that others share
        changes its speed all the time."""
        before = self._limits()
        done = work()
        self.file.check()
        return done, Limits.middle([before, self._limits()])

    def _limits(self) -> Limits:
        return Limits(self.probe.read_bandwidth(self.largest, brief=True), self.probe.dot_peak(brief=True))

    def _work(self, test: Test) -> float:
        """Products of a prompt, or bytes that were read."""
        if test.prompt:
            return cost.products(self.plan, test.prompt) * test.prompt
        steps = 1 if test.rows else test.gen
        moved = cost.weight_bytes(self.plan) + cost.kv_bytes(self.plan, self.kv_type, test.depth + test.tokens / 2)
        return moved * steps - self.spared

    def phases(self, test: Test) -> list[Phase]:
        """Where the time of a step goes, the longest first: of a step of the prompt, or of one token.

        Medians of `ROUNDS` steps.  `waiting` is the first worker's for the others, `around` what is before and after
        all operations: waking the workers, and Python."""
        tokens = min(test.prompt or test.rows or 1, self.backend.n_batch)
        outputs = tokens if test.rows else 1
        self.backend.cut(self.seq, 0)
        self._read(test.depth)
        step, rounds, limits = [self._chunk(tokens, outputs)], [], []
        for _ in range(ROUNDS):
            profile, beside = self._beside(lambda: self.backend.profile(step, self.logits[:outputs]))
            rounds.append(profile)
            limits.append(beside.of(test))
            self.backend.cut(self.seq, test.depth)
        found: dict[str, Phase] = {}
        for spans in zip(*rounds, strict=True):
            phase = found.setdefault(name := phase_name(spans[0].nodes), Phase(name))
            phase.seconds += statistics.median(span.seconds for span in spans)
            phase.possible += statistics.median(span.seconds * limit for span, limit in zip(spans, limits, strict=True))
            for node in spans[0].nodes:
                if "row_bytes" in node.fields and "rows" in node.fields:
                    rows, cols = int(node.fields["rows"]), int(node.fields["cols"])
                    phase.bytes += int(node.fields["row_bytes"]) * rows
                    phase.products += rows * cols * (outputs if node.rows == "outputs" else tokens)
        waiting = sum(statistics.median(span.waited for span in spans) for spans in zip(*rounds, strict=True))
        return sorted([*found.values(), Phase("waiting", waiting)], key=lambda phase: -phase.seconds)

    def _read(self, count: int) -> None:
        """Append tokens in steps as large as may be, the last of which needs logits."""
        for first in range(0, count, self.backend.n_batch):
            part = min(self.backend.n_batch, count - first)
            self._step(part, int(first + part == count))

    def _generate(self, count: int) -> None:
        """Append tokens as greedy generation does, which needs the largest logit only."""
        chunk = self._chunk(1, 1)
        for _ in range(count):
            best = self.backend.step_top(chunk, 1)
            self.spared += self.backend.spared
            chunk = Chunk(self.seq, [int(best.ids[0])], 1)

    def _step(self, count: int, outputs: int) -> None:
        self.backend.step([self._chunk(count, outputs)], self.logits[:outputs])

    def _chunk(self, count: int, outputs: int) -> Chunk:
        """The next tokens of the sequence."""
        held = self.backend.length(self.seq)
        ids = [(7919 * place + 13) % self.backend.n_vocab for place in range(held, held + count)]
        return Chunk(self.seq, ids, outputs)


def phase_name(nodes: Sequence[Node]) -> str:
    """What operations are called in a profile: their kernels, a linear layer by the type of its weights; those behind
    the last attention are marked as the output's."""
    names = dict.fromkeys(_node_name(node) for node in nodes)
    return (" + ".join(names) or "around") + (" (output)" if nodes and nodes[0].rows == "outputs" else "")


def _node_name(node: Node) -> str:
    if "dot" in node.helpers:
        return f"linear {node.helpers['dot'].rpartition('.')[2]}"
    return "attention" if node.kernel.startswith("attend") else node.kernel.partition(".")[0]


def load() -> float | None:
    """The system's load, where it tells: what else was running."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
