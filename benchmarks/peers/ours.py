"""edgeinfer as a peer of versus.py, which says last where the weights are to lie."""

import sys
import time

from turns import CONTEXT, DEPTH, MODEL, THREADS, ids, serve

import edgeinfer

llm = edgeinfer.LLM(MODEL, n_ctx=CONTEXT, n_threads=THREADS, weights=sys.argv[4])
PLAIN = {"temperature": 0.0, "ignore_eos": True, "token_healing": False, "seed": 1}


def decode(tokens: int) -> float:
    stamps = [time.perf_counter() for _ in llm.stream(ids(DEPTH), max_tokens=tokens + 1, **PLAIN)]
    assert len(stamps) == tokens + 1
    return stamps[-1] - stamps[0]


def prefill(tokens: int) -> float:
    start = time.perf_counter()
    llm.generate(ids(tokens), max_tokens=1, **PLAIN)
    return time.perf_counter() - start


serve(decode, prefill)
