"""Help, version, exit codes and what becomes of errors."""

import json
import pathlib
import signal
import subprocess
import sys

import pytest

import edgeinfer as package
from tests.cli.conftest import SCRIPT


def test_version(edgeinfer):
    assert edgeinfer("--version").stdout == f"edgeinfer {package.__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_command(edgeinfer, flag):
    done = edgeinfer(flag)
    assert done.returncode == 0
    for name in ("run", "pull", "list", "show", "tokenize", "perplexity", "doctor"):
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize("arguments", [["--wrong"], ["run", "--wrong"], ["nonsense"], ["show"], ["run", "a", "b", "c"]])
def test_wrong_flags_and_commands_exit_2(edgeinfer, arguments):
    done = edgeinfer(*arguments)
    assert (done.returncode, done.stdout) == (2, "") and "Traceback" not in done.stderr


def test_debug_shows_where_an_error_comes_from(edgeinfer):
    done = edgeinfer("show", "missing.gguf", "--debug")
    assert done.returncode == 1 and done.stderr.startswith("Traceback")


def test_an_error_nobody_foresaw_is_one_line_too(edgeinfer, tmp_path):
    code = (
        "import sys; from edgeinfer.cli import list, main; sys.argv = ['edgeinfer', 'list'];"
        "list.catalog.entries = lambda: 1 / 0; main.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "edgeinfer: unexpected ZeroDivisionError: division by zero (--debug shows where)\n"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep a folder that somebody is in")
def test_a_folder_that_went_away_is_named(edgeinfer, tmp_path):
    (tmp_path / "gone").mkdir()
    code = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.argv[1], sys.argv[1:])"
    arguments = [SCRIPT, "convert", str(tmp_path), "out.gguf"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=tmp_path / "gone"
    )
    assert (done.returncode, done.stderr) == (1, "edgeinfer: the current folder is no longer there\n")


def test_a_closed_pipe_ends_quietly(edgeinfer):
    with edgeinfer.start("list") as process:
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == ("", 141)


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [["list"], ["--help"], ["--version"]])
def test_output_that_cannot_be_written_is_one_line(edgeinfer, arguments):
    with open("/dev/full", "w") as full, edgeinfer.start(*arguments, stdout=full) as process:
        assert process.communicate()[1] == "edgeinfer: the output cannot be written: No space left on device\n"
    assert process.returncode == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes files")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_files_are_as_if_nobody_listened(closed):
    done = subprocess.run(["sh", "-c", f'exec "$0" list --json {closed}', SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert not done.stdout if ">&- " in closed + " " and "2>&-" != closed else json.loads(done.stdout)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_ctrl_c_is_heard_while_the_command_is_imported(tmp_path):
    (tmp_path / "typer.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    done = subprocess.run([sys.executable, "-m", "edgeinfer", "list"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "")


def test_python_m_is_the_command_too(edgeinfer):
    done = subprocess.run([sys.executable, "-m", "edgeinfer", "--version"], capture_output=True, text=True)
    assert done.stdout == edgeinfer("--version").stdout


@pytest.mark.parametrize("arguments", [["run", "--help"], ["list"]])
def test_a_light_command_imports_nothing_heavy(tmp_path, arguments):
    code = (
        f"import sys, atexit; from edgeinfer.cli import main; sys.argv = ['edgeinfer', *{arguments}, '--debug'];"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    loaded = set(done.stderr.split())
    assert "typer" in loaded and done.returncode == 0
    heavy = "numpy numba rich jinja2 tokenizers psutil pydantic statistics edgeinfer.llm edgeinfer.formats"
    assert not loaded & set(heavy.split())
