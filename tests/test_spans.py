"""Where the time of a step goes: every operation once, in order, and no time lost."""

import numpy as np
import pytest

from edgeinfer.backend import Chunk
from edgeinfer.cpu import CpuBackend
from edgeinfer.formats import gguf
from edgeinfer.plan import trace
from edgeinfer.simd_kernels import cpu
from tests import tiny


@pytest.mark.skipif(cpu.host().tier.name == "portable", reason="this tier has no clock")
@pytest.mark.parametrize("threads", [1, 2])
def test_spans_hold_every_operation_in_order(tmp_path, threads):
    with gguf.open(tiny.write(tmp_path / "m.gguf")) as file:
        backend = CpuBackend(trace(file, 64), 64, threads, "f16", 32, 1)
        seq, logits = backend.open(), np.zeros((1, backend.n_vocab), np.float32)
        plain = logits.copy()
        backend.step([Chunk(seq, [1, 2, 3], 1)], plain)
        backend.cut(seq, 0)
        spans = backend.profile([Chunk(seq, [1, 2, 3], 1)], logits)
        backend.close()
    assert [node for span in spans for node in span.nodes] == backend._lowered.nodes
    assert (logits == plain).all()
    assert min(min(span.seconds, span.waited) for span in spans[:-1]) >= 0 and len(spans[-1].nodes) == 0
    assert any(len(span.nodes) > 1 for span in spans) and 0 < sum(span.seconds for span in spans) < 60
