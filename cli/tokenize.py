"""`edgeinfer tokenize MODEL TEXT`: the ids and pieces a model makes of a text."""

import json
import os
import sys
from typing import Annotated

import typer

from edgeinfer.cli.override import Override, parsed
from edgeinfer.models import catalog


def command(
    model: Annotated[str, typer.Argument(help="A GGUF file, a Hugging Face folder or a pulled model's name.")],
    text: Annotated[str | None, typer.Argument(help="The text; standard input if left out.")] = None,
    special: Annotated[bool, typer.Option(help="Read control tokens such as <|im_end|> as such.")] = False,
    add_special: Annotated[bool, typer.Option(help="Add the tokens a model wants at begin and end.")] = True,
    override: Override = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object instead of lines.")] = False,
) -> None:
    """Show the tokens of a text: ids and pieces."""
    from edgeinfer import files
    from edgeinfer.tokenizer import Tokenizer

    with files.open(catalog.resolve(model, fetch=False), parsed(override)) as file:
        tokenizer = Tokenizer.from_gguf(file)
    data = sys.stdin.buffer.read() if text is None else os.fsencode(text)
    ids = tokenizer.encode(data, add_special=add_special, parse_special=special)
    pieces = [tokenizer.token_bytes(token) for token in ids]
    if as_json:
        texts = [piece.decode(errors="backslashreplace") for piece in pieces]
        print(json.dumps({"ids": ids, "pieces": texts}))
        return
    for token, piece in zip(ids, pieces, strict=True):
        print(f"{token:7} {_shown(piece)}")


def _shown(piece: bytes) -> str:
    """The piece in quotes; as bytes where it is part of a character only."""
    try:
        return repr(piece.decode())
    except UnicodeDecodeError:
        return repr(piece)
