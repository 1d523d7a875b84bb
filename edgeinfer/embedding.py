"""Embeddings and reranking: texts as ids, packed into steps, and what is made of the rows that come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgeinfer import prompt as prompts
from edgeinfer.engine import Engine
from edgeinfer.errors import BackendError, ContextFullError, RequestError
from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer import Tokenizer

TEXTS = 16  # of a step, at most
ROBERTA_SEPARATOR = b"</s>"  # of which two stand between the texts of a pair; BERT and others have one

Text = str | bytes | Sequence[int]


@dataclass(frozen=True)
class Ranked:
    """A document by its place in the list given, and how well it answers the query: the higher the better."""

    index: int
    score: float


def encode_texts(tokenizer: Tokenizer, texts: Sequence[Text]) -> list[list[int]]:
    """Ids of each text with the tokens the model wants around it; given ids are taken as they are.

    RequestError where `texts` is no sequence of texts, or a text gives no ids.
    """
    _check_list("texts", texts)
    if not texts:
        raise RequestError("texts is empty: there is nothing to embed")
    encoded = []
    for number, text in enumerate(texts):
        if isinstance(text, (str, bytes)):
            ids = tokenizer.encode(text, exact=True)
        else:
            ids = prompts.checked(tokenizer, text)
        if not ids:
            raise RequestError(f"text {number} is empty, and this model puts no token of its own around a text")
        encoded.append(ids)
    return encoded


def encode_pairs(tokenizer: Tokenizer, file: GgufFile, query: str, documents: Sequence[str]) -> list[list[int]]:
    """Ids of the query with each document: by the file's template for it, or one text behind the other.

    Then BERT has [CLS] query [SEP] document [SEP], and RoBERTa <s> query </s></s> document </s>.
    """
    _check_list("documents", documents)
    if not (isinstance(query, str) and all(isinstance(document, str) for document in documents)):
        raise RequestError("query and documents must be strings")
    template = file.get("tokenizer.chat_template.rerank", str, "")
    if template:
        return [_by_template(tokenizer, template, query, document) for document in documents]
    begin, end = tokenizer.bos_id, tokenizer.eos_id
    if end is None or not tokenizer.add_eos:
        raise RequestError("the file does not say how this model reads a query and a document")
    between = [end, end] if tokenizer.pieces[end] == ROBERTA_SEPARATOR else [end]
    first = [begin] if tokenizer.add_bos and begin is not None else []
    head = [*first, *tokenizer.encode(query, add_special=False), *between]
    return [[*head, *tokenizer.encode(document, add_special=False), end] for document in documents]


def _by_template(tokenizer: Tokenizer, template: str, query: str, document: str) -> list[int]:
    """Control tokens count only in what the template wrote."""
    texts = {"{query}": query, "{document}": document}
    segments: list[tuple[str | bytes, bool]] = []
    rest = template
    while found := min((name for name in texts if name in rest), key=rest.index, default=None):
        before, _, rest = rest.partition(found)
        segments += [(before, True), (texts[found], False)]
    return tokenizer.encode_segments([*segments, (rest, True)], add_special=False)


def run(engine: Engine, texts: Sequence[Sequence[int]], together: int) -> np.ndarray:
    """float32[texts, width] of a plan that pools; short texts share steps of some `together` tokens.

    Each text is read from an empty context, and by itself.  ContextFullError where one does not fit, BackendError for
    numbers that are not finite.
    """
    for number, ids in enumerate(texts):
        if len(ids) > engine.n_batch:
            raise ContextFullError(f"text {number} has {len(ids)} tokens; n_ctx leaves room for {engine.n_batch}")
    out = np.empty((len(texts), engine.plan.width), np.float32)
    for numbers in _packed([len(ids) for ids in texts], together):
        rows = np.empty((len(numbers), engine.plan.width), np.float32)
        engine.encode([texts[number] for number in numbers], rows)
        out[numbers] = rows
    if not np.isfinite(out).all():
        raise BackendError("the model gave numbers that are not finite: its file is damaged or does not fit")
    return out


def _packed(lengths: Sequence[int], together: int) -> Iterator[list[int]]:
    """Numbers of the texts of each step: shortest first, at most TEXTS and `together` tokens, or one longer text."""
    step: list[int] = []
    tokens = 0
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if step and (len(step) == TEXTS or tokens + lengths[number] > together):
            yield step
            step, tokens = [], 0
        step.append(number)
        tokens += lengths[number]
    if step:
        yield step


def shaped(rows: np.ndarray, dimensions: int | None, normalize: bool) -> np.ndarray:
    """The first `dimensions` columns (Matryoshka, https://arxiv.org/abs/2205.13147), each row of length 1."""
    width = rows.shape[1]
    if dimensions is not None:
        if isinstance(dimensions, bool) or not isinstance(dimensions, (int, np.integer)):
            raise RequestError(f"dimensions is {str(dimensions)[:50]!r}; must be an integer, 1 to {width}")
        if not 1 <= dimensions <= width:
            raise RequestError(f"dimensions is {dimensions}; must be 1 to {width}")
        rows = rows[:, :dimensions].copy()
    if normalize:
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)  # a square may be beyond float32
        rows = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return rows


def _check_list(name: str, value: Any) -> None:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise RequestError(f"{name} must be a list of texts, not {type(value).__name__}")
