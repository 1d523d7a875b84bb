"""Makes decoders.json: llama.cpp's logits for the models in decoders.py, the first of the last position of the prompt,
and the mean of the rows of encoders.

Run by hand as `python -m tests.models.golden_decoders [NAME...]` where llama-cpp-python is installed, 0.3.36 or later.
"""

import json
import pathlib
import sys
import tempfile

import llama_cpp
import numpy as np

from tests.models.decoders import CASES, COMMON, ENCODERS, KEPT, PROMPT

PAGE = pathlib.Path(__file__).with_name("decoders.json")


def logits(path: pathlib.Path) -> np.ndarray:
    """float32 [vocab], at the end of the prompt; keys and values float32, as little rounded as can be."""
    options = {"type_k": 0, "type_v": 0, "flash_attn": False, "n_threads": 1}
    model = llama_cpp.Llama(str(path), n_ctx=COMMON["context_length"], logits_all=True, verbose=False, **options)
    model.eval(PROMPT)
    return np.array(model.scores[len(PROMPT) - 1], np.float32)


def mean(path: pathlib.Path) -> np.ndarray:
    """float32 [dim]: of the prompt's rows."""
    model = llama_cpp.Llama(str(path), embedding=True, pooling_type=llama_cpp.LLAMA_POOLING_TYPE_MEAN, verbose=False)
    model.tokenize = lambda *args, **options: PROMPT
    return np.array(model.embed("the prompt", normalize=False), np.float32)


def main() -> None:
    golden = json.loads(PAGE.read_text()) if PAGE.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or CASES | ENCODERS:
            path = (CASES | ENCODERS)[name].write(pathlib.Path(folder) / f"{name}.gguf")
            found = logits(path)[:KEPT] if name in CASES else mean(path)
            golden[name] = [float(f"{number:.6g}") for number in found.tolist()]
            print(name, found[:3])
    lines = [f"{json.dumps(name)}: {json.dumps(golden[name], separators=(',', ':'))}" for name in CASES | ENCODERS]
    PAGE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
