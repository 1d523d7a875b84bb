"""llama-cpp-python as a peer of versus.py, through the C interface it wraps: no sampling, no text."""

import ctypes
import time

import llama_cpp as c
from turns import CONTEXT, MODEL, THREADS, ids, serve

silence = c.llama_log_callback(lambda *_: None)
c.llama_log_set(silence, None)
model = c.llama_model_load_from_file(MODEL.encode(), c.llama_model_default_params())
settings = c.llama_context_default_params()
settings.n_ctx, settings.n_batch, settings.n_ubatch = CONTEXT, 512, 512
settings.n_threads = settings.n_threads_batch = THREADS
context = c.llama_init_from_model(model, settings)


def forget() -> None:
    c.llama_memory_clear(c.llama_get_memory(context), True)


def step(tokens: list[int]) -> None:
    held = (ctypes.c_int32 * len(tokens))(*tokens)  # the batch only points to it
    assert c.llama_decode(context, c.llama_batch_get_one(held, len(tokens))) == 0
    c.llama_synchronize(context)


def decode() -> tuple[int, float]:
    forget()
    step(ids(16))
    start = time.perf_counter()
    for token in ids(64):
        step([token])
    return 64, time.perf_counter() - start


def prefill() -> tuple[int, float]:
    forget()
    start = time.perf_counter()
    step(ids(512))
    return 512, time.perf_counter() - start


serve(decode, prefill)
