"""Chat: messages rendered by a model's own template, and which of the text may hold control tokens.

A control token typed by a user, put into a system prompt or returned by a tool is text; only the template (and what
the assistant said) may write control tokens.  `render_segments` tells them apart by rendering twice, the second time
with an otherwise unused character, the marker, behind every typed character that could begin a control token.
"""

import collections
import datetime
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from edgeinfer.errors import FormatError, RequestError

NO_TEMPLATE = "this model has no chat template (a base model): use generate / --raw"


def template_of(metadata: Mapping[str, object]) -> str:
    """A GGUF file's own chat template.  RequestError where it has none."""
    template = metadata.get("tokenizer.chat_template")
    if template is None or template == "":
        raise RequestError(NO_TEMPLATE)
    if not isinstance(template, str):
        raise FormatError(f"tokenizer.chat_template is {type(template).__name__}, not a string")
    return template


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Any] | None = None,
    add_generation_prompt: bool = False,
    now: datetime.datetime | None = None,
    **variables: Any,
) -> str:
    """The conversation as the model's text.

    `messages`: dicts with `role` and `content` (a text, or a list of {"type": "text", "text": ...}); `now`: the time
    told to the template (default: the clock); `variables`: the template's others (bos_token, enable_thinking, ...).
    RequestError for unsound messages, and with the template's own words where it refuses them; FormatError for a
    template that is none.  What it does with what it does not support (a system prompt, say) is the template's choice:
    many refuse it."""
    from edgeinfer import sandbox  # jinja2 takes 50 ms to import, and only chats need it

    _check(messages)
    given = {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": add_generation_prompt}
    return sandbox.run(template, given | variables, now)


def readable(template: str, messages: Sequence[Mapping[str, Any]], **variables: Any) -> Sequence[Mapping[str, Any]]:
    """The messages as the template reads them: lists of parts as lines of one text where it reads texts only, texts as
    lists of one part where it reads parts only.

    A template fails at the other form, shows it as Python does or leaves it out.  RequestError for unsound messages."""
    _check(messages)

    def shows(content: str | list[Mapping[str, str]]) -> bool:
        try:
            shown = render(template, [{"role": "user", "content": content}], **variables)
        except RequestError:
            return False
        return "alpha" in shown and "'text'" not in shown

    parts = [_part("alpha")]
    if any(isinstance(message.get("content"), list) for message in messages) and not shows(parts):
        return [_joined(message) for message in messages]
    if any(isinstance(message.get("content"), str) for message in messages) and not shows("alpha") and shows(parts):
        return [_parted(message) for message in messages]
    return messages


def begun(messages: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], str]:
    """The messages an answer is wanted to, and what there is of it: the last message's text, if that is the assistant's
    and calls no tools."""
    _check(messages)
    if not messages or messages[-1]["role"] != "assistant" or messages[-1].get("tool_calls"):
        return messages, ""
    return messages[:-1], _joined(messages[-1])["content"]


def render_segments(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Any] | None = None,
    add_generation_prompt: bool = False,
    now: datetime.datetime | None = None,
    *,
    special: Iterable[str],
    **variables: Any,
) -> list[tuple[str, bool]]:
    """The text of `render` as segments (text, parse_special); joined they are that text exactly.

    `special`: the texts of the control tokens.  Segments meet only at control tokens, so that encoding them one by one
    gives the ids of the whole.  Variables named *_token are the template's own; all others count as typed."""
    now = now or datetime.datetime.now()
    controls = _Controls(special)
    inputs = {"messages": messages, "tools": tools, **variables}
    typed: list[str] = []

    def note(string: str) -> str:
        typed.append(string)
        return string

    def rendered(change: Callable[[str], str]) -> str:
        return render(template, add_generation_prompt=add_generation_prompt, now=now, **_retyped(inputs, change))

    text = render(template, add_generation_prompt=add_generation_prompt, now=now, **inputs)
    _retyped(inputs, note)
    if not any(controls.first.search(string) for string in typed):
        return [(text, True)] if text else []
    marker = _unused([template, text, *typed])
    return _split(text, controls, _typed_starts(text, rendered, controls, typed, marker))


class _Controls:
    """The texts of control tokens, searchable."""

    def __init__(self, special: Iterable[str]) -> None:
        self.texts = frozenset(filter(None, special))
        self.lengths = sorted({len(text) for text in self.texts}, reverse=True)
        firsts = "".join(sorted({text[0] for text in self.texts}))
        self.first = re.compile(f"[{re.escape(firsts)}]" if firsts else "(?!)")

    def end(self, text: str, start: int) -> int:
        """Where the longest control token that starts there ends; 0 if none does."""
        return next((start + n for n in self.lengths if text[start : start + n] in self.texts), 0)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of every control token, overlapping ones too."""
        for match in self.first.finditer(text):
            if end := self.end(text, match.start()):
                yield match.start(), end

    def marked(self, text: str, marker: str, whole: bool) -> str:
        """The text with a marker behind each character that begins a control token or, unless whole, could do so."""

        def behind(match: re.Match[str]) -> str:
            return match[0] + marker if not whole or self.end(text, match.start()) else match[0]

        return self.first.sub(behind, text)


def _typed_starts(
    text: str, rendered: Callable[[Callable[[str], str]], str], controls: _Controls, typed: list[str], marker: str
) -> set[int]:
    """Places in the rendered text where typed characters begin what could be a control token.

    Marking every character that could begin one finds also those that a template joins from typed parts.  Some
    templates look for markup like <tool_response> in what is typed and miss it when it is marked: then only whole
    control tokens are marked.  Some act even on those: then what was typed anywhere counts as typed everywhere.  In
    both cases, so does a control token of which there are more than in the first marked text, where all are the
    template's own."""

    def marked(whole: bool) -> tuple[str, set[int] | None]:
        try:
            result = rendered(lambda string: controls.marked(string, marker, whole))
        except RequestError:
            return "", None
        if result.replace(marker, "") != text:
            return result, None
        places = (match.start() - 1 - before for before, match in enumerate(re.finditer(marker, result)))
        # a template that cuts the marked character off leaves the marker behind another one
        return result, {place for place in places if place >= 0 and controls.first.match(text, place)}

    template_only, starts = marked(whole=False)
    if starts is not None:
        return starts
    own = collections.Counter(template_only[start:end] for start, end in controls.spans(template_only))
    spans = {start: text[start:end] for start, end in controls.spans(text)}
    _, starts = marked(whole=True)
    if starts is None:
        found = {string[start:end] for string in typed for start, end in controls.spans(string)}
        starts = {start for start, token in spans.items() if token in found}
    left = collections.Counter(token for start, token in spans.items() if start not in starts)
    return starts | {start for start, token in spans.items() if left[token] > own[token]}


def _split(text: str, controls: _Controls, typed: set[int]) -> list[tuple[str, bool]]:
    """Cut at the template's control tokens; what lies between two is parsed only if it holds no typed one."""
    pieces: list[tuple[str, bool]] = []
    done, clean = 0, True
    for start, end in controls.spans(text):
        if start < done:
            continue
        if typed.isdisjoint(range(start, end)):
            pieces += [(text[done:start], clean), (text[start:end], True)]
            done, clean = end, True
        else:
            clean = False
    pieces.append((text[done:], clean))
    pieces = [piece for piece in pieces if piece[0]]
    groups = itertools.groupby(pieces, key=lambda piece: piece[1])
    return [("".join(part for part, _ in group), parse) for parse, group in groups]


def _retyped(inputs: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """The inputs of `render` with every typed string changed, also in nested values: all but the assistant's words."""

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, Mapping):
            return {walk(key): walk(item) for key, item in value.items()}
        return type(value)(map(walk, value)) if type(value) in (list, tuple) else value

    def message(fields: Mapping[str, Any]) -> dict[str, Any]:
        said = fields["role"] == "assistant"
        return {key: value if said and key != "tool_calls" else walk(value) for key, value in fields.items()}

    try:
        changed = {name: value if name.endswith("_token") else walk(value) for name, value in inputs.items()}
        return changed | {"messages": [message(fields) for fields in inputs["messages"]]}
    except RecursionError:
        raise RequestError("messages: nested too deeply") from None


def _unused(strings: Iterable[str]) -> str:
    """A private-use character that occurs in none of them."""
    used = set().union(*strings)
    private = itertools.chain(range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
    for code in private:
        if chr(code) not in used:
            return chr(code)
    raise RequestError("messages: they use every private-use character of Unicode")


def _part(text: str) -> Mapping[str, str]:
    return {"type": "text", "text": text}


def _parted(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message with its text as a list of one part."""
    content = message.get("content")
    return {**message, "content": [_part(content)]} if isinstance(content, str) else message


def _joined(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message with its parts as lines of one text."""
    content = message.get("content")
    return {**message, "content": "\n".join(part["text"] for part in content)} if isinstance(content, list) else message


def _check(messages: Sequence[Mapping[str, Any]]) -> None:
    """RequestError naming the first message that is not one."""
    if not isinstance(messages, (list, tuple)):
        raise RequestError(f"messages: a list of dicts with role and content, not {type(messages).__name__}")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise RequestError(f"messages[{index}]: a dict with role and content, not {type(message).__name__}")
        if not isinstance(message.get("role"), str):
            raise RequestError(f"messages[{index}]: its role must be a text such as 'user'")
        content = message.get("content")
        if content is None and message.get("tool_calls"):
            continue
        if isinstance(content, list):
            _check_parts(content, f"messages[{index}].content")
        elif not isinstance(content, str):
            raise RequestError(f"messages[{index}]: its content must be a text or a list of text parts")


def _check_parts(parts: list[Any], name: str) -> None:
    for index, part in enumerate(parts):
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        if kind != "text":
            raise RequestError(f"{name}[{index}]: only parts of type 'text' are read, not {str(kind)[:50]!r}")
        if not isinstance(part.get("text"), str):
            raise RequestError(f"{name}[{index}]: its text must be a text")
