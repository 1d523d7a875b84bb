"""`edgeinfer convert FOLDER OUT.gguf`: a model folder of Hugging Face's as one GGUF file."""

import sys
from typing import Annotated

import typer

from edgeinfer.cli.answer import say
from edgeinfer.cli.pull import terminated


def command(
    folder: Annotated[str, typer.Argument(help="A folder with config.json, tokenizer.json and *.safetensors.")],
    out: Annotated[str, typer.Argument(help="The file to write, such as model.gguf; one that is there is replaced.")],
    kind: Annotated[
        str | None, typer.Option("--type", help="Type of the matrices: f32, f16 or bf16; else as they are.")
    ] = None,
) -> None:
    """Write a model folder of Hugging Face's as a GGUF file.

    One tensor at a time is in memory.  Vectors become f32.  `edgeinfer run FOLDER` runs the same model as it is.
    """
    from edgeinfer.huggingface.convert import convert

    with terminated():
        size = convert(folder, out, kind, _draw if sys.stderr.isatty() else lambda done, total: None)
    say(f"wrote {out} ({size / 1e6:.1f} MB)")


def _draw(done: int, total: int) -> None:
    print(f"\r{done / 1e6:.0f} of {total / 1e6:.0f} MB", end="\n" if done == total else "", file=sys.stderr, flush=True)
