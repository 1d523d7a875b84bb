"""Decode and prefill speed beside llama-cpp-python on the same file, in alternation, medians.

usage: versus_llamacpp.py PEER_PYTHON MODEL.gguf [MODEL.gguf ...] [--threads 1,2] [--rounds 5]

PEER_PYTHON is the interpreter of an environment with llama-cpp-python in it.  Both run as processes of their own
that wait for their turn: decode is 64 single-token steps after 16 tokens, prefill one prompt of 512 tokens.  `share`
is the CPU time a turn got over what it asked
for: below about 0.9 the machine was busy with something else and the figure says little."""

import argparse
import json
import os
import statistics
import subprocess
import sys

IDS = "[(7919 * i) % 19000 + 300 for i in range({})]"
OURS = f"""
import edgeinfer, json, sys, time
model, threads = sys.argv[1], int(sys.argv[2])
llm = edgeinfer.LLM(model, n_ctx=1024, n_threads=threads)
def decode():
    times, last = [], None
    for _ in llm.stream({IDS.format(16)}, max_tokens=65, temperature=0.0, ignore_eos=True, token_healing=False, seed=1):
        now = time.perf_counter()
        times += [now - last] if last else []
        last = now
    return len(times), sum(times)
def prefill():
    start = time.perf_counter()
    llm.generate({IDS.format(512)}, max_tokens=1, temperature=0.0, ignore_eos=True, token_healing=False, seed=1)
    return 512, time.perf_counter() - start
"""
THEIRS = f"""
import ctypes, json, sys, time
import llama_cpp as L
model, threads = sys.argv[1], int(sys.argv[2])
quiet = L.llama_log_callback(lambda *_: None); L.llama_log_set(quiet, None)
m = L.llama_model_load_from_file(model.encode(), L.llama_model_default_params())
p = L.llama_context_default_params()
p.n_ctx, p.n_batch, p.n_ubatch, p.n_threads, p.n_threads_batch = 1024, 512, 512, threads, threads
c = L.llama_init_from_model(m, p)
def step(ids):
    tokens = (ctypes.c_int32 * len(ids))(*ids)  # the batch only points to it
    assert L.llama_decode(c, L.llama_batch_get_one(tokens, len(ids))) == 0
    L.llama_synchronize(c)
def decode():
    L.llama_memory_clear(L.llama_get_memory(c), True); step({IDS.format(16)})
    start = time.perf_counter()
    for i in {IDS.format(64)}: step([i])
    return 64, time.perf_counter() - start
def prefill():
    L.llama_memory_clear(L.llama_get_memory(c), True)
    start = time.perf_counter(); step({IDS.format(512)}); return 512, time.perf_counter() - start
"""
SERVE = """
print("ready", flush=True)
for line in sys.stdin:
    cpu, wall = time.process_time(), time.perf_counter()
    tokens, seconds = {"decode": decode, "prefill": prefill}[line.strip()]()
    share = (time.process_time() - cpu) / (time.perf_counter() - wall) / threads
    print(json.dumps({"speed": tokens / seconds, "share": share}), flush=True)
"""


class Peer:
    """A process that answers `decode` and `prefill` with a speed in tokens per second."""

    def __init__(self, python: str, script: str, model: str, threads: int) -> None:
        self.process = subprocess.Popen(
            [python, "-c", script + SERVE, model, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        assert self.process.stdout and self.process.stdout.readline().strip() == "ready"

    def run(self, test: str) -> dict[str, float]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(test + "\n")
        self.process.stdin.flush()
        answer: dict[str, float] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def compare(python: str, model: str, threads: int, rounds: int) -> None:
    peers = {"edgeinfer": Peer(sys.executable, OURS, model, threads), "llama.cpp": Peer(python, THEIRS, model, threads)}
    samples: dict[tuple[str, str], list[dict[str, float]]] = {}
    for number in range(rounds + 1):  # the first round only warms up
        for test in ("decode", "prefill"):
            for name, peer in peers.items():
                sample = peer.run(test)
                if number:
                    samples.setdefault((test, name), []).append(sample)
    for test in ("decode", "prefill"):
        speeds = {name: statistics.median(s["speed"] for s in samples[test, name]) for name in peers}
        shares = {name: statistics.median(s["share"] for s in samples[test, name]) for name in peers}
        words = [f"{name} {speeds[name]:8.1f} (share {shares[name]:.2f})" for name in peers]
        times = speeds["edgeinfer"] / speeds["llama.cpp"]
        head, load = f"{os.path.basename(model):36s} {threads} threads  {test:8s}", os.getloadavg()[0]
        print(head, *words, f"{times:5.2f} times", f"load {load:.1f}", sep="  ", flush=True)
    for peer in peers.values():
        peer.close()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("python")
    arguments.add_argument("models", nargs="+")
    arguments.add_argument("--threads", default="1,2")
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    for model in given.models:
        for threads in given.threads.split(","):
            compare(given.python, model, int(threads), given.rounds)


if __name__ == "__main__":
    main()
