"""ik-llama-cpp-python as a peer of versus.py, through the C interface it wraps."""

import ctypes
import time

from ik_llama_cpp import _ctypes_api as c
from turns import CONTEXT, DEPTH, MODEL, THREADS, ids, serve

c.llama_backend_init()
wanted = c.llama_model_default_params()
wanted.repack_tensors = True  # rows side by side, its fastest form
model = c.llama_model_load_from_file(MODEL.encode(), wanted)
settings = c.llama_context_default_params()
settings.n_ctx, settings.n_batch, settings.n_ubatch = CONTEXT, 512, 512
settings.n_threads = settings.n_threads_batch = THREADS
context = c.llama_init_from_model(model, settings)
synchronize = c._lib.llama_synchronize
synchronize.argtypes = [ctypes.c_void_p]


def step(tokens: list[int], position: int) -> None:
    batch = c.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for row, token in enumerate(tokens):
        batch.token[row], batch.pos[row] = token, position + row
        batch.n_seq_id[row], batch.seq_id[row][0] = 1, 0
        batch.logits[row] = row == len(tokens) - 1
    assert c.llama_decode(context, batch) == 0
    synchronize(context)
    c.llama_batch_free(batch)


def decode(tokens: int) -> float:
    c.llama_kv_cache_clear(context)
    step(ids(DEPTH), 0)
    start = time.perf_counter()
    for number, token in enumerate(ids(tokens)):
        step([token], DEPTH + number)
    return time.perf_counter() - start


def prefill(tokens: int) -> float:
    c.llama_kv_cache_clear(context)
    start = time.perf_counter()
    step(ids(tokens), 0)
    return time.perf_counter() - start


serve(decode, prefill)
