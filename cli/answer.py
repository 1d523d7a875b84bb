"""One answer of a model: streamed to stdout as it comes, or whole as JSON."""

import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgeinfer import LLM
    from edgeinfer.generate import Chunk

Messages = list[dict[str, str]]


def say(text: str) -> None:
    """A line to the user, on stderr."""
    print(f"edgeinfer: {text}", file=sys.stderr, flush=True)


@dataclasses.dataclass(frozen=True)
class Asker:
    """A model and how it is asked; `settings` are keyword arguments of `LLM.stream` and `LLM.chat_stream` alike.

    `raw` leaves the chat template out: the last message is continued as it stands.
    """

    llm: "LLM"
    raw: bool
    stats: bool
    settings: dict[str, Any]

    def speak(self, answer: Iterator["Chunk"]) -> tuple[str, bool]:
        """Stream an answer to stdout; its text, and whether Ctrl-C cut it short."""
        text, interrupted = "", False
        try:
            for chunk in answer:
                text += chunk.text
                print(chunk.text, end="", flush=True)
        except KeyboardInterrupt:
            interrupted = True
        if not text.endswith("\n"):
            print(flush=True)
        if not interrupted and _is_full(chunk, self.llm):
            say(f"the answer ends here: the context of {self.llm.n_ctx} tokens is full")
        if self.stats and not interrupted:
            print(_statistics(chunk) + self._defaults() + self._copies(), file=sys.stderr, flush=True)
        return text, interrupted

    def stream(self, messages: Messages) -> Iterator["Chunk"]:
        """The answer as it comes; dropping the iterator ends it.  ContextFullError before anything is read."""
        if self.raw:
            return self.llm.stream(messages[-1]["content"], **self.settings)
        return self.llm.chat_stream(messages, **self.settings)

    def _defaults(self) -> str:
        """What the file says of sampling, where the user says nothing."""
        stated = [f"{name} {value:.4g}" for name, value in self.llm.sampling.items() if name not in self.settings]
        return f"; from the model: {', '.join(stated)}" if stated else ""

    def _copies(self) -> str:
        """How much of the weights lies in huge pages, where they are copied."""
        copied, huge = self.llm.weights.copied_bytes, self.llm.weights.huge_bytes
        return f"; weights copied, {huge / 1e6:.1f} of {copied / 1e6:.1f} MB in huge pages" if copied else ""

    def print_json(self, messages: Messages, model: str) -> None:
        """Print the whole answer and all about it as one JSON object."""
        if self.raw:
            answer = self.llm.generate(messages[-1]["content"], **self.settings)
        else:
            answer = self.llm.chat(messages, **self.settings)
        print(json.dumps({"model": model, **dataclasses.asdict(answer)}))


def _is_full(last: "Chunk", llm: "LLM") -> bool:
    """Whether an answer with this last chunk ended for want of context."""
    if last.finish_reason != "length" or last.usage is None:
        return False
    held = 1 + last.usage.completion_tokens if llm.answers else last.usage.total_tokens
    return held >= llm.n_ctx


def _statistics(last: "Chunk") -> str:
    """What the last chunk says of counts and speeds, in one line."""
    usage, timings = last.usage, last.timings
    assert usage is not None and timings is not None
    cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
    return (
        f"prompt {usage.prompt_tokens} tokens{cached}, {timings.prompt_tokens_per_s:.1f} tokens/s; "
        f"answer {usage.completion_tokens} tokens, {timings.tokens_per_s:.1f} tokens/s; "
        f"first token after {timings.first_token_s:.3f} s; ended by {last.finish_reason}"
    )
