"""The `edgeinfer` command: one typer app, one file a command, and the one place where errors become exit codes."""

import contextlib
import errno
import functools
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

import edgeinfer
from edgeinfer.cli import bench, convert, doctor, embed, kernels, perplexity, pull, run, show, tokenize, tune
from edgeinfer.cli import list as list_models
from edgeinfer.errors import EdgeInferError

INTERRUPTED, BROKEN_PIPE = 130, 141  # 128 + the signal's number, as shells report it
UNWRITTEN = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT)  # of errors that name no file: output is lost


def main() -> None:
    """Run the command line; exits with 0, 1 (a bad file or the machine), 2 (user's mistake) or 130 (Ctrl-C)."""
    argv = sys.argv[1:]
    debug = "--debug" in argv[: argv.index("--")] if "--" in argv else "--debug" in argv
    if debug:
        argv.remove("--debug")
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed: nothing is read, nobody listens
            setattr(sys, name, open(os.devnull, mode))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter must not end an answer
    warnings.showwarning = lambda message, *_: print(f"edgeinfer: {message}", file=sys.stderr)
    try:
        _app(debug)(argv, prog_name="edgeinfer")
    except SystemExit as end:
        if not debug and isinstance(end.code, int):
            _leave(end.code)
        raise
    except OSError as error:  # of --help and --version, which typer prints
        if debug:
            raise
        _leave(_told(error))


def _leave(code: int) -> NoReturn:
    """End the process.  Python would take every module apart before, and LLVM its tables, which takes 0.03 s."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # the disk is full, or nobody reads it
            code = code or 1
    os._exit(code)


def _app(debug: bool) -> typer.Typer:
    """The commands.  `debug`: errors show where they come from."""
    app = typer.Typer(
        help="Run GGUF language models on the CPU.  With --debug, any command shows where an error comes from.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for module in (run, pull, list_models, show, convert, tokenize, embed, perplexity, bench, tune, doctor):
        name = module.__name__.rpartition(".")[2]
        app.command(name)(_guarded(module.command, debug))
    group = typer.Typer(help="Kernels: machine code made for a kind of CPU.", no_args_is_help=True)
    group.callback()(lambda: None)  # a group of one command is still a group
    group.command("build")(_guarded(kernels.build, debug))
    app.add_typer(group, name="kernels")
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"edgeinfer {edgeinfer.__version__}")
        raise typer.Exit


_Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")]


def _options(version: _Version = False) -> None:
    """Options of `edgeinfer` itself, all of which act by their callbacks."""


def _guarded(command: Callable[..., None], debug: bool) -> Callable[..., None]:
    """`command` with every error turned into one line on stderr and an exit code."""

    @functools.wraps(command)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except typer.Exit:
            raise
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains of it at exit
            raise typer.Exit(BROKEN_PIPE) from None
        except Exception as error:
            if debug:
                raise
            raise typer.Exit(_told(error)) from None

    return call


def _told(error: Exception) -> int:
    """Says on stderr what went wrong, in one line; the exit code for it."""
    if isinstance(error, EdgeInferError):
        text = str(error)
    elif isinstance(error, MemoryError):
        text = "there is not enough memory"
    elif isinstance(error, OSError) and error.filename is None and error.errno in UNWRITTEN:
        text = f"the output cannot be written: {error.strerror}"
    elif isinstance(error, FileNotFoundError) and error.filename is None:  # a path cannot be made absolute
        text = "the current folder is no longer there"
    else:
        text = f"unexpected {type(error).__name__}: {' '.join(str(error).split())} (--debug shows where)"
    with contextlib.suppress(OSError):
        print(f"edgeinfer: {text}", file=sys.stderr, flush=True)
    return error.exit_code if isinstance(error, EdgeInferError) else 1
