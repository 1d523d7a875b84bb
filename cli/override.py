"""`--override KEY=VALUE`: metadata of a model file replaced for one command."""

import json
from typing import Annotated

import typer

from edgeinfer.errors import RequestError

Override = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="KEY=VALUE", help="Replace metadata of the file; may be given again."),
]


def parsed(texts: list[str] | None) -> dict[str, object]:
    """The keys and their values: numbers, true and false are such, all else is text; so is what stands in quotes."""
    found: dict[str, object] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise RequestError(f"--override {text[:50]!r}; must be KEY=VALUE")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
        except RecursionError:
            raise RequestError(f"--override {text[:50]!r}: the value is nested too deeply") from None
    return found
