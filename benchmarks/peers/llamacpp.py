"""llama-cpp-python as a peer of versus.py: the one of `edgeinfer bench --vs`."""

import pathlib
import runpy

from turns import CONTEXT, DEPTH, MODEL, THREADS, serve

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "cli" / "bench_peer.py"
llama = runpy.run_path(str(SCRIPT))["Llama"](MODEL, THREADS, CONTEXT, 512)

serve(lambda tokens: llama.seconds(0, tokens, DEPTH), lambda tokens: llama.seconds(tokens, 0, 0))
