"""Wall time from the shell to the first token, kernels kept, beside llama-cpp-python, in alternation; medians.

usage: starts.py MODEL.gguf PYTHON [--rounds 5]

PYTHON is the interpreter of an environment that has llama_cpp; the one that runs this has edgeinfer, best installed as
users have it: from a checkout in place Python may compile each module anew (PYTHONDONTWRITEBYTECODE).  Both chat where
the file has a template ("Hi", one token), and else continue the text."""

import argparse
import statistics
import subprocess
import sys
import time

from edgeinfer.formats import gguf

PEER = """
import sys, llama_cpp
model = llama_cpp.Llama(sys.argv[1], n_ctx=2048, verbose=False)
print(model{call})
"""
CHAT = '.create_chat_completion([{"role": "user", "content": "Hi"}], max_tokens=1)'
RAW = '("Hi", max_tokens=1)'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("python")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with gguf.open(options.model) as file:
        chats = "tokenizer.chat_template" in file.metadata
    for raw in (False, True) if chats else (True,):
        ours = [sys.executable, "-m", "edgeinfer", "run", "-m", options.model, "-p", "Hi", "-n", "1"]
        theirs = [options.python, "-c", PEER.replace("{call}", RAW if raw else CHAT), options.model]
        commands = {"edgeinfer": ours + ["--raw"] * raw, "llama.cpp": theirs}
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(options.rounds + 1):  # the first warms up
            for name, command in commands.items():
                start = time.perf_counter()
                subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
                times[name].append(time.perf_counter() - start)
        for name, taken in times.items():
            kept = taken[1:]
            print(f"{'raw' if raw else 'chat'} {name}: median {statistics.median(kept):.2f} s, least {min(kept):.2f}")


if __name__ == "__main__":
    main()
