"""Makes decoders.json: llama.cpp's logits for the models in decoders.py, the first of the last position of the prompt,
or of its reverse in answer to it, and the mean of the rows of encoders.

Run by hand as `python -m tests.models.golden_decoders [NAME...]` where llama-cpp-python is installed, 0.3.36 or later.
"""

import pathlib
import sys
import tempfile

import llama_cpp
import numpy as np

from tests.models.decoders import ANSWERS, CASES, COMMON, ENCODERS, KEPT, PROMPT, Case, keep


def logits(path: pathlib.Path, case: Case) -> np.ndarray:
    """float32 [KEPT], at the end of the prompt; keys and values float32, as little rounded as can be."""
    options = {"type_k": 0, "type_v": 0, "flash_attn": case.flash, "n_threads": 1}
    model = llama_cpp.Llama(str(path), n_ctx=case.context, logits_all=True, verbose=False, **options)
    model.eval(case.prompt)
    return np.array(model.scores[case.length - 1][case.first : case.first + KEPT], np.float32)


def mean(path: pathlib.Path) -> np.ndarray:
    """float32 [dim]: of the prompt's rows."""
    model = llama_cpp.Llama(str(path), embedding=True, pooling_type=llama_cpp.LLAMA_POOLING_TYPE_MEAN, verbose=False)
    model.tokenize = lambda *args, **options: PROMPT
    return np.array(model.embed("the prompt", normalize=False), np.float32)


def answer(path: pathlib.Path) -> np.ndarray:
    """float32 [KEPT]: after the prompt's reverse, in answer to the prompt."""
    model = llama_cpp.Llama(
        str(path), n_ctx=COMMON["context_length"], type_k=0, type_v=0, flash_attn=False, n_threads=1, verbose=False
    )
    for run, ids in ((llama_cpp.llama_encode, PROMPT), (llama_cpp.llama_decode, PROMPT[::-1])):
        batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for place, id in enumerate(ids):
            batch.token[place], batch.pos[place], batch.logits[place] = id, place, True
            batch.n_seq_id[place], batch.seq_id[place][0] = 1, 0
        assert run(model.ctx, batch) == 0
    return np.array(llama_cpp.llama_get_logits_ith(model.ctx, -1)[:KEPT], np.float32)


def main() -> None:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or [name for name in CASES | ENCODERS | ANSWERS if name != "chameleon-34b"]:
            path = (CASES | ENCODERS | ANSWERS)[name].write(pathlib.Path(folder) / f"{name}.gguf")
            found[name] = logits(path, CASES[name]) if name in CASES else (mean if name in ENCODERS else answer)(path)
            print(name, found[name][:3])
    keep(found)


if __name__ == "__main__":
    main()
