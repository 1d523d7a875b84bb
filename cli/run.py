"""`edgeinfer run [MODEL] [PROMPT]`: answer a prompt, or chat where there is none."""

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeinfer.cli.answer import Asker, say
from edgeinfer.cli.override import Override, parsed
from edgeinfer.cli.reading import read_all
from edgeinfer.errors import RequestError
from edgeinfer.models import catalog

if TYPE_CHECKING:
    from edgeinfer import LLM


def command(
    first: Annotated[str | None, typer.Argument(metavar="MODEL", help="As -m.")] = None,
    second: Annotated[str | None, typer.Argument(metavar="PROMPT", help="As -p.")] = None,
    model: Annotated[str | None, typer.Option("-m", "--model", help="A model file, folder or name.")] = None,
    prompt: Annotated[str | None, typer.Option("-p", "--prompt", help="What to answer.")] = None,
    system: Annotated[str | None, typer.Option(help="What the model is told first.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the text; no chat template.")] = False,
    max_tokens: Annotated[int | None, typer.Option("-n", "--max-tokens", help="End after so many tokens.")] = None,
    temperature: Annotated[float | None, typer.Option("--temp", help="0 always takes the likeliest token.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Choose among the k likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Choose among the likeliest that make up this share.")] = None,
    min_p: Annotated[float | None, typer.Option(help="Drop what is less likely than this share of the best.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed and threads: same text.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text; may be given again.")] = None,
    ctx: Annotated[int | None, typer.Option(help="Context in tokens; the model's own if memory allows.")] = None,
    threads: Annotated[
        int | None, typer.Option("-t", "--threads", help="CPU threads; all physical cores if left out.")
    ] = None,
    kv_type: Annotated[str, typer.Option(help="Type of K and V in memory: f32, f16 or q8_0.")] = "f16",
    weights: Annotated[str, typer.Option(help="Where they lie: mmap, huge (pages; a copy) or auto.")] = "mmap",
    stats: Annotated[bool, typer.Option("--stats", help="Print counts and speeds on stderr.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as one JSON object.")] = False,
    override: Override = None,
    backend: Annotated[str, typer.Option(hidden=True)] = "cpu",
) -> None:
    """Answer a prompt, or chat where there is none.

    A single argument is MODEL if it is a file or a name in the catalog, and PROMPT if it holds a space.
    Without MODEL the catalog's default runs, fetched on first use.  Piped input is the prompt, or follows PROMPT
    after an empty line.  An answer ends where the model ends it, with --raw after 256 tokens, unless -n is given.
    """
    name, prompt = _model_and_prompt([word for word in (first, second) if word is not None], model, prompt)
    terminal = sys.stdin.isatty()
    if raw and system is not None:
        raise RequestError("--system needs the chat template that --raw leaves out")
    if as_json and terminal and prompt is None:
        raise RequestError("--json needs a prompt: a conversation on a terminal is no JSON object")
    choices = {"max_tokens": max_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    settings: dict[str, Any] = {key: value for key, value in choices.items() if value is not None}
    settings |= {"seed": seed, "stop": stop or ()}
    options: dict[str, Any] = {"n_ctx": ctx, "n_threads": threads, "kv_type": kv_type, "backend": backend}
    options["weights"] = weights
    replaced = parsed(override)

    from edgeinfer.llm import LLM
    from edgeinfer.options import check_options, checked

    check_options(**options)
    checked(**settings)
    path = _resolved(name)
    with LLM(str(path), **options, override=replaced) as llm:
        llm.check_generates()
        raw = raw or _lacks_template(llm, system)
        if not raw or llm.answers:
            settings.setdefault("max_tokens", llm.n_ctx)  # an answer has an end; a text continued has none
        asker = Asker(llm, raw, stats, settings)
        messages = [] if system is None else [{"role": "system", "content": _text(system)}]
        if terminal and prompt is None:
            from edgeinfer.cli.chat import converse

            converse(asker, messages)
            return
        question = prompt if terminal else _with_piped(prompt)
        if question is None or not question.strip():
            raise RequestError("nothing to answer: the prompt is empty")
        messages.append({"role": "user", "content": question})
        if as_json:
            asker.print_json(messages, path.name)
        elif asker.speak(asker.stream(messages))[1]:
            raise KeyboardInterrupt


def _model_and_prompt(words: list[str], model: str | None, prompt: str | None) -> tuple[str | None, str | None]:
    """The model and the prompt of the options -m and -p and of what stands without an option."""
    if len(words) + (model is not None) + (prompt is not None) > 2:
        raise RequestError(f"{words[-1]!r} is one argument too many beside -m or -p")
    if len(words) == 2:
        model, prompt = words
    elif words and model is not None:
        prompt = words[0]
    elif words and (prompt is not None or _names_model(words[0])):
        model = words[0]
    elif words:
        prompt = words[0]
    return model, None if prompt is None else _text(prompt)


def _names_model(word: str) -> bool:
    """Whether the only argument is a model (True) or a prompt (False); RequestError for a word that is neither."""
    if os.path.isfile(word) or catalog.find(word):
        return True
    if any(letter.isspace() for letter in word) or not word:
        return False
    if catalog.looks_like_path(word):
        return True
    try:
        return catalog.lookup(word) is not None
    except RequestError as error:
        raise RequestError(f"{error}; if it is what you want to ask: -p {word}") from None


def _resolved(name: str | None) -> Path:
    """The model's file; a model of the catalog is fetched on first use."""
    if name is None:
        name = catalog.default().name
    elif os.path.isfile(name):
        return Path(name)
    if (entry := catalog.find(name)) and not entry.stored:
        from edgeinfer.cli.pull import fetch

        return fetch(entry)
    return catalog.resolve(name)


def _lacks_template(llm: "LLM", system: str | None) -> bool:
    """Whether the model cannot chat; says what happens instead.  RequestError where a system message would be lost."""
    if "tokenizer.chat_template" in llm.metadata:
        return False
    if system is not None:
        raise RequestError("--system needs a chat template, and this model has none")
    if not llm.answers:
        say("this model has no chat template: it continues the text instead of answering it (as with --raw)")
    return True


def _with_piped(prompt: str | None) -> str | None:
    """The prompt, then standard input after an empty line; one alone if the other is missing, None if both are."""
    waiting = threading.Timer(1.0, say, ["reading standard input to its end"])
    waiting.daemon = True
    waiting.start()
    try:
        piped = read_all(sys.stdin.buffer, "standard input")
    finally:
        waiting.cancel()
    parts = [prompt, piped.decode(errors="replace").removesuffix("\n")]
    return "\n\n".join(part for part in parts if part) or prompt


def _text(argument: str) -> str:
    """An argument whose bytes are no text, with marks in their place."""
    return argument.encode(errors="surrogateescape").decode(errors="replace")
