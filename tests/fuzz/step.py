"""Target: a whole model loaded and run for a few tokens, on SIMD kernels or on the reference backend."""

from __future__ import annotations

import random
import zlib

import numpy as np

from edgeinfer import LLM
from edgeinfer.errors import EdgeInferError, RequestError
from edgeinfer.models import catalog
from edgeinfer.simd_kernels import cpu, kernels, pack
from edgeinfer.verbs.rows import POOLINGS
from tests.fuzz import gguf_changes, odd, seeds
from tests.fuzz.place import placed


def prepare() -> None:
    """All kernels, so that none is built while a case is timed."""
    pack.load(kernels.table(), cpu.host().tier, catalog.home() / "kernels")


def make(rng: random.Random) -> bytes:
    parts = rng.choice(seeds.models()).copy()
    gguf_changes.weights(rng, parts, ())
    return parts.write() if rng.random() < 0.5 else gguf_changes.changed(rng, parts, seeds.models())


def run(case: bytes) -> None:
    rng = random.Random(zlib.crc32(case))
    backend = rng.choice(["cpu", "cpu", "cpu", "reference"])
    threads, kv_type = rng.choice([1, 1, 2]), rng.choice(["f16", "q8_0", "f32"])
    with placed(case) as path, LLM(path, 40, threads, kv_type, backend, n_batch=16) as llm:
        ids = [rng.randrange(len(llm.tokenizer.pieces)) for _ in range(min(21, llm.n_ctx))]
        try:
            if not llm.answers:
                _logits(llm, ids)
            _generate(llm, rng, ids)
            if llm.answers:  # and has an encoder
                _embed(llm, rng, ids)
        except RequestError:  # it is an encoder
            _embed(llm, rng, ids)
            _rank(llm, rng)


def _logits(llm: LLM, ids: list[int]) -> None:
    logits = llm.logits(ids)
    assert logits.shape == (len(ids), llm.n_vocab) and logits.dtype == np.float32


def _generate(llm: LLM, rng: random.Random, ids: list[int]) -> None:
    for prompt in (ids[:3], odd.text(rng, 2)):
        try:
            answer = llm.generate(prompt, max_tokens=3, seed=1, temperature=rng.choice([0, 1]))
        except EdgeInferError as error:  # such as logits that are not finite
            assert len(str(error).splitlines()) == 1
        else:
            assert all(0 <= id < llm.n_vocab for id in answer.ids)


def _embed(llm: LLM, rng: random.Random, ids: list[int]) -> None:
    pooling = rng.choice([None, *POOLINGS])
    try:
        rows = llm.embed([ids, odd.text(rng, 2)], pooling)
    except EdgeInferError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert len(rows) == 2 and np.isfinite(rows).all()


def _rank(llm: LLM, rng: random.Random) -> None:
    ranked = llm.rerank(odd.text(rng, 1).decode("utf-8", "replace"), ["a", "b c"])
    assert sorted(document.index for document in ranked) == [0, 1]
