"""What all peers of versus.py have in common: the ids they read, and how they wait for their turn.

A peer is a process `python PEER.py MODEL THREADS`.  It says `ready` once the model is loaded; then each line on its
standard input, `decode` or `prefill`, is a turn, answered by a line of JSON: tokens a second, and the CPU time the turn
got over what it asked for."""

import json
import sys
import time
from collections.abc import Callable

MODEL, THREADS = sys.argv[1], int(sys.argv[2])
CONTEXT = 1024  # tokens
Turn = Callable[[], tuple[int, float]]  # tokens, and seconds they took


def ids(count: int) -> list[int]:
    """So many token ids that most vocabularies have."""
    return [(7919 * i) % 19_000 + 300 for i in range(count)]


def serve(decode: Turn, prefill: Turn) -> None:
    """decode: 64 tokens one by one after 16; prefill: a prompt of 512 tokens."""
    print("ready", flush=True)
    for line in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        tokens, seconds = {"decode": decode, "prefill": prefill}[line.strip()]()
        share = (time.process_time() - cpu) / (time.perf_counter() - wall) / THREADS
        print(json.dumps({"speed": tokens / seconds, "share": share}), flush=True)
