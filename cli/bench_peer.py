"""llama-cpp-python beside `edgeinfer bench --vs`: a script for another interpreter, which needs nothing of edgeinfer.

Its arguments: MODEL THREADS CONTEXT BATCH.  Says `ready` once the model is loaded; then each line on
its standard input, `PROMPT GEN DEPTH`, is a test, answered by a line with the seconds it took.  It goes through the C
interface that the package wraps: no sampling, no text.
"""

import ctypes
import sys
import time

import llama_cpp as c

model_path, threads, n_ctx, n_batch = sys.argv[1], *map(int, sys.argv[2:])
silence = c.llama_log_callback(lambda *_: None)
c.llama_log_set(silence, None)
model = c.llama_model_load_from_file(model_path.encode(), c.llama_model_default_params())
settings = c.llama_context_default_params()
settings.n_ctx, settings.n_batch, settings.n_ubatch = n_ctx, n_batch, n_batch
settings.n_threads = settings.n_threads_batch = threads
context = c.llama_init_from_model(model, settings)
n_vocab = c.llama_vocab_n_tokens(c.llama_model_get_vocab(model))


def read(count, at_once):
    """Append `count` tokens in steps of `at_once`."""
    for first in range(0, count, at_once):
        part = min(at_once, count - first)
        ids = (ctypes.c_int32 * part)(*[(7919 * (first + i) + 13) % n_vocab for i in range(part)])
        assert c.llama_decode(context, c.llama_batch_get_one(ids, part)) == 0
    c.llama_synchronize(context)


print("ready", flush=True)
for line in sys.stdin:
    prompt, gen, depth = map(int, line.split())
    c.llama_memory_clear(c.llama_get_memory(context), True)
    read(depth, n_batch)
    start = time.perf_counter()
    read(prompt, n_batch)
    read(gen, 1)
    print(time.perf_counter() - start, flush=True)
