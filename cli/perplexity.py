"""`edgeinfer perplexity MODEL FILE`: how well a model predicts a text."""

import json
import math
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from edgeinfer.cli.override import Override, parsed
from edgeinfer.cli.reading import read_all
from edgeinfer.errors import RequestError
from edgeinfer.models import catalog

if TYPE_CHECKING:
    import numpy as np

    from edgeinfer import LLM


def command(
    model: Annotated[str, typer.Argument(help="A GGUF file, a Hugging Face folder or a pulled model's name.")],
    file: Annotated[str, typer.Argument(help="The text, UTF-8.")],
    ctx: Annotated[int, typer.Option(min=2, help="Tokens in a window.")] = 512,
    threads: Annotated[
        int | None, typer.Option("-t", "--threads", help="CPU threads; all physical cores if left out.")
    ] = None,
    kv_type: Annotated[str, typer.Option(help="Type of K and V in memory: f32, f16 or q8_0.")] = "f16",
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object instead of a line.")] = False,
    override: Override = None,
    backend: Annotated[str, typer.Option(hidden=True)] = "cpu",
) -> None:
    """Measure how well a model predicts a text.

    Prints the mean negative log-likelihood of a token and its exponential, the perplexity.  The text is cut into
    windows of --ctx tokens, each read from an empty context and begun with BOS where the model wants it; every token
    but a window's first is predicted.  A last, shorter window counts too.
    """
    try:
        with open(file, "rb") as source:
            text = read_all(source, file)
    except OSError as error:
        raise RequestError(f"{file}: {error.strerror}") from None

    from edgeinfer import LLM

    path, replaced = catalog.resolve(model, fetch=False), parsed(override)
    with LLM(str(path), n_ctx=ctx, n_threads=threads, kv_type=kv_type, backend=backend, override=replaced) as llm:
        llm.check_continues()
        windows = _windows(llm, text, llm.n_ctx)
        total, count = 0.0, 0
        for number, window in enumerate(windows):
            total += _loss(llm.logits(window), window)
            count += len(window) - 1
            if sys.stderr.isatty():
                print(f"\r{number + 1} of {len(windows)} windows", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if not count:
        raise RequestError(f"{file}: too short, nothing to predict")
    result = {"tokens": count, "nll": total / count, "perplexity": math.exp(total / count)}
    if as_json:
        print(json.dumps(result))
    else:
        print(f"perplexity {result['perplexity']:.4f}, mean nll {result['nll']:.5f} nats, {count} tokens predicted")


def _windows(llm: "LLM", text: bytes, ctx: int) -> list[list[int]]:
    """The ids of `text` in windows of at most `ctx`, the BOS before each included."""
    tokenizer = llm.tokenizer
    begin = [tokenizer.bos_id] if tokenizer.add_bos and tokenizer.bos_id is not None else []
    ids, step = llm.tokenize(text, add_special=False), ctx - len(begin)
    return [begin + ids[start : start + step] for start in range(0, len(ids), step)]


def _loss(logits: "np.ndarray", ids: list[int]) -> float:
    """Sum of the negative log-likelihoods, in nats, of ids[1:].  logits float32[len(ids), vocab]; one row at a time."""
    import numpy as np

    total = 0.0
    for row, target in zip(logits, ids[1:], strict=False):
        best = row.max()
        total += float(best + np.log(np.exp(row - best).sum(dtype=np.float64)) - row[target])
    return total
