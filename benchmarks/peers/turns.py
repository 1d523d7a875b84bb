"""What all peers of versus.py have in common: the ids they read, and how they wait for their turn.

A peer is a process `python PEER.py MODEL THREADS DEPTH`.  It says `ready` once the model is loaded; then each line on
its standard input, `decode TOKENS` or `prefill TOKENS`, is a turn, answered by a line of JSON: tokens a second, and the
CPU time the turn got over what it asked for."""

import json
import sys
import time
from collections.abc import Callable

MODEL, THREADS, DEPTH = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
CONTEXT = 1024  # tokens
Turn = Callable[[int], float]  # seconds for so many tokens


def ids(count: int) -> list[int]:
    """So many token ids that most vocabularies have."""
    return [(7919 * i) % 19_000 + 300 for i in range(count)]


def serve(decode: Turn, prefill: Turn) -> None:
    """decode: tokens one by one after DEPTH others, or in answer to a text of so many; prefill: a prompt or text."""
    print("ready", flush=True)
    for line in sys.stdin:
        kind, count = line.split()
        cpu, wall = time.process_time(), time.perf_counter()
        seconds = {"decode": decode, "prefill": prefill}[kind](int(count))
        share = (time.process_time() - cpu) / (time.perf_counter() - wall) / THREADS
        print(json.dumps({"speed": int(count) / seconds, "share": share}), flush=True)
