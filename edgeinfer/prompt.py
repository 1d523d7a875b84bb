"""Prompts: what users give, text, ids or messages, as ids that a model can go on from."""

import datetime
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from edgeinfer import chat
from edgeinfer.errors import RequestError
from edgeinfer.tokenizer import Tokenizer

Piece = int | bytes  # a control token, or the text between two of them


def checked(tokenizer: Tokenizer, ids: Iterable[Any]) -> list[int]:
    """The ids as plain integers.  RequestError naming one that the vocabulary does not have."""
    try:
        ids = [operator.index(id) for id in ids]
    except TypeError:
        raise RequestError("token ids must be a sequence of integers") from None
    size = tokenizer.n_vocab
    for id in ids:
        if not 0 <= id < size:
            raise RequestError(f"token id {id} is outside the vocabulary of {size} tokens, 0..{size - 1}")
    return ids


def from_prompt(tokenizer: Tokenizer, prompt: str | bytes | Sequence[int]) -> list[int]:
    """Ids of a text with its BOS, or given ids as they are.  An empty prompt is BOS; RequestError if there is none."""
    if isinstance(prompt, (str, bytes)):
        ids = _with_bos(tokenizer, tokenizer.encode(prompt, add_special=False, exact=True))
    else:
        ids = checked(tokenizer, prompt)
    if ids:
        return ids
    if tokenizer.bos_id is None:
        raise RequestError("the prompt is empty, and this model has no token to begin a text with (BOS)")
    return [tokenizer.bos_id]


def from_messages(
    tokenizer: Tokenizer,
    metadata: Mapping[str, object],
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Any] | None,
    earlier: Iterable[Sequence[int]],
) -> list[int]:
    """Ids of a chat up to where the assistant speaks, or goes on where the last message is its own, by the template in
    `metadata`.

    Where an `earlier` sequence begins with the same text, its ids are kept.  Raises what `chat.render` does, and
    RequestError for tools that the template leaves out.
    """
    special = [_text(text) for text, id in tokenizer.special_tokens.items() if tokenizer.is_control(id)]
    named = {"bos_token": tokenizer.bos_id, "eos_token": tokenizer.eos_id}
    tokens: dict[str, Any] = {name: "" if id is None else _text(tokenizer.pieces[id]) for name, id in named.items()}
    template = chat.template_of(metadata)
    given: dict[str, Any] = {"add_generation_prompt": True, "now": datetime.datetime.now(), **tokens}
    messages, said = chat.begun(messages)
    messages = chat.readable(template, messages, **given)
    segments = chat.render_segments(template, messages, tools, special=special, **given)
    if tools and "".join(text for text, _ in segments) == _without_tools(template, messages, given):
        raise RequestError("tools: this model's chat template has no place for them")
    if said and segments and segments[-1][1]:  # one text with the words that let the assistant speak
        said = segments.pop()[0] + said
    segments += [(said, True)] if said else []
    ids = _with_bos(tokenizer, tokenizer.encode_segments(segments, add_special=False))
    if not ids:
        raise RequestError("messages: the model's template makes no text of them")
    return keep_spelling(tokenizer, ids, earlier)


def _without_tools(template: str, messages: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> str:
    """The chat rendered with no tools given; nothing where the template cannot do without."""
    try:
        return chat.render(template, messages, **given)
    except RequestError:
        return ""


def keep_spelling(tokenizer: Tokenizer, ids: Sequence[int], earlier: Iterable[Sequence[int]]) -> list[int]:
    """The ids, with the beginning spelt as in that of the `earlier` sequences which has most of its text.

    A model may spell its answer in other tokens than a tokenizer would, and the KV is of its own.  Only whole texts
    between control tokens are taken over: no token could reach across such a seam.
    """
    pieces = list(_pieces(tokenizer, ids))
    known, kept = 0, 0
    best: Sequence[int] = ()
    for other in earlier:
        end, other_end = 0, 0
        for (place, piece), (other_place, other_piece) in zip(pieces, _pieces(tokenizer, other), strict=False):
            if piece != other_piece:
                break
            end, other_end = place, other_place
        if end > known:
            known, kept, best = end, other_end, other
    return [*best[:kept], *ids[known:]]


def _pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[tuple[int, Piece]]:
    """The ids as control tokens and the texts between them, each with the place where it ends."""
    text: list[bytes] = []
    for place, id in enumerate(ids):
        if not tokenizer.is_control(id):
            text.append(tokenizer.token_bytes(id))
            continue
        if text:
            yield place, b"".join(text)
            text = []
        yield place + 1, id
    if text:
        yield len(ids), b"".join(text)


def _with_bos(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    bos = tokenizer.bos_id
    return [bos, *ids] if tokenizer.add_bos and bos is not None and ids[:1] != [bos] else ids


def ended(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """The ids of a whole text, with EOS where the model wants one."""
    eos = tokenizer.eos_id
    return [*ids, eos] if tokenizer.add_eos and eos is not None and ids[-1:] != [eos] else ids


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
