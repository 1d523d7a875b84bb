"""Help, version, exit codes and what becomes of errors."""

import subprocess
import sys

import pytest

import edgeinfer as package


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


def test_a_closed_pipe_ends_quietly(edgeinfer):
    with edgeinfer.start("list") as process:
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == ("", 141)


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
