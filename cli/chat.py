"""A conversation on a terminal: a line in, an answer out, until /exit or Ctrl-D."""

import sys

from edgeinfer.cli.answer import Asker, Messages, say
from edgeinfer.errors import ContextFullError, EdgeInferError

KEYS = "Ctrl-C stops an answer, /exit or Ctrl-D ends"
HELP = f"{KEYS}; lines that are pasted together are one question; every line but /exit and /help goes to the model"


def converse(asker: Asker, messages: Messages) -> None:
    """Answer line after line, after `messages`.  Ctrl-C ends an answer or, at the prompt, the conversation."""
    say(f"{KEYS}, /help tells more")
    begin = len(messages)
    while (line := _read_line()) is not None and line.strip() != "/exit":
        if line.strip() == "/help":
            say(HELP)
            continue
        if not line.strip():
            continue
        messages.append({"role": "user", "content": line})
        try:
            text, _ = _answer(asker, messages, begin)
            messages.append({"role": "assistant", "content": text})
        except EdgeInferError as error:
            say(str(error))
            messages.pop()


def _answer(asker: Asker, messages: Messages, begin: int) -> tuple[str, bool]:
    """Answer the last message; where the context is full, the oldest exchanges after the first `begin` messages go, but
    none of them for a question that would not fit without them either."""
    kept = list(messages)
    while True:
        try:
            answer = asker.stream(kept)
            break
        except ContextFullError:
            if len(kept) <= begin + 1:
                raise
            del kept[begin : begin + 2]
    if forgotten := (len(messages) - len(kept)) // 2:
        messages[:] = kept
        what = "question and its answer" if forgotten == 1 else f"{forgotten} questions and their answers"
        say(f"the context is full: the oldest {what} are forgotten")
    return asker.speak(answer)


def _read_line() -> str | None:
    """What the user types, None at the end of input.  With readline, a paste of several lines is one text."""
    try:
        if sys.stdout.isatty():
            _edit_lines()
            return input("> ")
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        return line.removesuffix("\n") if line else None
    except EOFError:
        print(file=sys.stderr)
        return None
    except KeyboardInterrupt:
        print(file=sys.stderr)
        raise


def _edit_lines() -> None:
    """Give `input` line editing and history; a Python without readline does without."""
    try:
        import readline  # noqa: F401
    except ImportError:
        pass
