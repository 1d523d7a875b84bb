"""`edgeinfer list`: the models of the catalog, and which of them are here."""

import json
from typing import Annotated

import typer

from edgeinfer.models import catalog


def command(
    as_json: Annotated[bool, typer.Option("--json", help="A JSON array instead of a table.")] = False,
) -> None:
    """List the models that can be named, installed or not."""
    if as_json:
        print(json.dumps([_row(entry) for entry in catalog.entries()], indent=2))
        return
    for number, entry in enumerate(catalog.entries()):
        state = "installed" if entry.stored else "available"
        note = ", the default" if number == 0 else ""
        print(f"{entry.name:24} {entry.bytes / 1e6:6.0f} MB  {state:10} {entry.licence:19} {entry.description}{note}")


def _row(entry: catalog.Entry) -> dict[str, object]:
    """What `--json` says of a model; `path` is null until it is pulled."""
    return {
        "name": entry.name,
        "aliases": entry.aliases,
        "description": entry.description,
        "licence": entry.licence,
        "bytes": entry.bytes,
        "path": str(entry.path) if entry.stored else None,
    }
