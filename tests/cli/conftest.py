"""The command as users start it: the console script beside this Python, in a process of its own."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(sys.executable).with_name("edgeinfer")


def hear_interrupts():
    """A command started in the background ignores SIGINT, and so would all it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclasses.dataclass
class Command:
    """Runs `edgeinfer ARGUMENTS` with a store of its own; `environment` is added to this process's."""

    environment: dict

    def start(self, *arguments, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        options |= {"preexec_fn": hear_interrupts} if os.name == "posix" else {}
        environment = os.environ | self.environment
        return subprocess.Popen([SCRIPT, *map(str, arguments)], text=True, encoding="utf-8", env=environment, **options)

    def __call__(self, *arguments, input=""):
        with self.start(*arguments, stdin=subprocess.PIPE) as process:
            out, err = process.communicate(input, timeout=120)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def fails(self, code, *arguments, input=""):
        """The one line of error of a command that must end with `code` and print nothing else."""
        done = self(*arguments, input=input)
        assert (done.returncode, done.stdout) == (code, ""), done
        assert done.stderr.startswith("edgeinfer: ") and done.stderr.count("\n") == 1, done.stderr
        return done.stderr


@pytest.fixture
def edgeinfer(tmp_path, home):
    """A `Command` whose store of models is empty; kernels are those of the session, which take seconds to build."""
    own, kernels = tmp_path / "home", home / "kernels"
    own.mkdir()
    kernels.mkdir(exist_ok=True)
    if os.name == "posix":
        (own / "kernels").symlink_to(kernels)
    return Command({"EDGEINFER_HOME": str(own)})
