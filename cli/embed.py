"""`edgeinfer embed MODEL [TEXT...]`: vectors of texts, one a line."""

import json
import os
import sys
from typing import Annotated

import typer

from edgeinfer.cli.reading import read_all
from edgeinfer.errors import RequestError


def command(
    model: Annotated[str, typer.Argument(help="A GGUF file, a Hugging Face folder or a model's name.")],
    texts: Annotated[list[str] | None, typer.Argument(help="The texts; else the lines of standard input.")] = None,
    pooling: Annotated[str | None, typer.Option(help="mean, cls or last; else as the file says.")] = None,
    dimensions: Annotated[int | None, typer.Option(min=1, help="Only the first numbers of each vector.")] = None,
    normalize: Annotated[bool, typer.Option(help="Vectors of length 1.")] = True,
    threads: Annotated[int | None, typer.Option("-t", "--threads", min=1, help="CPU threads.")] = None,
) -> None:
    """Embed texts: a JSON array of numbers on a line for each."""
    from edgeinfer.llm import LLM

    given = [os.fsencode(text) for text in texts or read_all(sys.stdin.buffer, "standard input").splitlines()]
    if not given:
        raise RequestError("no text: give texts as arguments, or lines on standard input")
    with LLM(model, n_threads=threads) as llm:
        for row in llm.embed(given, pooling, normalize, dimensions):
            print(json.dumps([float(str(number)) for number in row]))
