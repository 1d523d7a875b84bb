"""llama-cpp-python beside `edgeinfer bench --vs`: a script for another interpreter, which needs nothing of edgeinfer.

Its arguments: MODEL THREADS CONTEXT BATCH.  Says `ready` once the model is loaded; then each line on
its standard input, `PROMPT GEN DEPTH`, is a test, answered by a line with the seconds it took.  It goes through the C
interface that the package wraps: no sampling, no text.
"""

import ctypes
import sys
import time
from collections.abc import Callable

import llama_cpp as c


class Llama:
    """A model with a context of n_ctx tokens, read in steps of n_batch."""

    def __init__(self, path: str, threads: int, n_ctx: int, n_batch: int) -> None:
        self._silence = c.llama_log_callback(lambda *_: None)  # has to live as long as it may be called
        c.llama_log_set(self._silence, None)
        model = c.llama_model_load_from_file(path.encode(), c.llama_model_default_params())
        settings = c.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = n_ctx, n_batch, n_batch
        settings.n_threads = settings.n_threads_batch = threads
        self._context = c.llama_init_from_model(model, settings)
        self._n_vocab = c.llama_vocab_n_tokens(c.llama_model_get_vocab(model))
        self._n_batch = n_batch
        self._read_text = c.llama_encode if c.llama_model_has_encoder(model) else c.llama_decode

    def seconds(self, prompt: int, gen: int, depth: int) -> float:
        """What `prompt` tokens, then `gen` one by one take behind `depth` others; in models that answer a text, one of
        `prompt` tokens, or the answer to one of `depth`."""
        c.llama_memory_clear(c.llama_get_memory(self._context), True)
        self._read(depth, self._n_batch, self._read_text)
        start = time.perf_counter()
        self._read(prompt, self._n_batch, self._read_text)
        self._read(gen, 1, c.llama_decode)
        return time.perf_counter() - start

    def _read(self, count: int, at_once: int, read: Callable[..., int]) -> None:
        """Append `count` tokens in steps of `at_once`."""
        for first in range(0, count, at_once):
            part = min(at_once, count - first)
            ids = (ctypes.c_int32 * part)(*[(7919 * (first + i) + 13) % self._n_vocab for i in range(part)])
            assert read(self._context, c.llama_batch_get_one(ids, part)) == 0
        c.llama_synchronize(self._context)


if __name__ == "__main__":
    llama = Llama(sys.argv[1], *map(int, sys.argv[2:]))
    print("ready", flush=True)
    for line in sys.stdin:
        print(llama.seconds(*map(int, line.split())), flush=True)
