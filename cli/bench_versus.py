"""The process of `edgeinfer bench --vs` that runs llama-cpp-python, in turns with this one."""

import subprocess
from pathlib import Path

from edgeinfer.errors import BackendError, RequestError

SCRIPT = Path(__file__).with_name("bench_peer.py")


class Peer:
    """llama-cpp-python under the interpreter `python`, with a model loaded.  A context manager."""

    def __init__(self, python: str, model: str, threads: int, n_ctx: int, n_batch: int) -> None:
        """RequestError where that is no interpreter with llama-cpp-python, or cannot load the model."""
        # as a text: beside the script lie modules with names that other packages want to import
        command = [python, "-c", SCRIPT.read_text(encoding="utf-8"), model, str(threads), str(n_ctx), str(n_batch)]
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, errors="replace")
        except OSError as error:
            raise RequestError(f"--vs {python}: {error.strerror}") from error
        if (answer := self._answer()) != "ready":
            raise RequestError(f"--vs {python}: llama-cpp-python does not run there: {self._reason(answer)}")

    def run(self, prompt: int, gen: int, depth: int) -> float:
        """Seconds of one test.  BackendError from a process that died."""
        assert self._process.stdin
        try:
            print(prompt, gen, depth, file=self._process.stdin, flush=True)
            return float(self._answer())
        except (OSError, ValueError):
            raise BackendError("llama-cpp-python ended in the middle of a test") from None

    def _reason(self, answer: str) -> str:
        """Why the process is of no use; it is ended."""
        if answer:
            self._process.kill()
            return f"it said {answer!r}"
        _, said = self._process.communicate()
        return said.strip().rpartition("\n")[2] or f"it ended with code {self._process.returncode} and no word"

    def _answer(self) -> str:
        """The next line; empty when the process has ended."""
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
