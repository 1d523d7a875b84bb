"""Cuts text at the tokens that stand for themselves: control and user-defined ones, before anything else is tokenised.

The longest token is cut out first, wherever it is, then the next; so does llama.cpp.  User-defined tokens are always
cut, control tokens only inside the spans of the text where the caller allows them: never in what a user types."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from edgeinfer.tokenizer.vocabulary import PieceType, Vocabulary

_PREFIX = 2  # bytes of a token by which those that cannot be in a text are ruled out, many at a time

_STRIP_NOTHING = {b"<unk>", b"<s>", b"<|endoftext|>"}

Span = tuple[int, int]


def merged(segments: Sequence[tuple[bytes, bool]]) -> tuple[bytes, list[Span]]:
    """The segments (text, parse_special) as one text, and the spans of it where control tokens may be."""
    spans: list[Span] = []
    end = 0
    for text, parse in segments:
        start, end = end, end + len(text)
        if parse and spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
        elif parse:
            spans.append((start, end))
    return b"".join(text for text, _ in segments), spans


class SpecialTokens:
    """Finds the special tokens of a vocabulary in text.  `ids` has their texts, longest first."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        kinds = (PieceType.CONTROL, PieceType.USER_DEFINED, PieceType.UNKNOWN)
        special = np.flatnonzero(np.isin(vocabulary.types, kinds)).tolist()
        pieces = {piece: id for id in special if (piece := vocabulary.pieces[id])}
        self.ids: Mapping[bytes, int] = {piece: pieces[piece] for piece in sorted(pieces, key=len, reverse=True)}
        users = np.flatnonzero(vocabulary.types == PieceType.USER_DEFINED).tolist()
        self._always = frozenset(vocabulary.pieces[id] for id in users)
        self._strips = frozenset(self.ids) - _STRIP_NOTHING if vocabulary.swallows_blanks else frozenset()
        self._by_prefix: dict[bytes, list[bytes]] = defaultdict(list)
        for piece in self.ids:
            self._by_prefix[piece[:_PREFIX]].append(piece)

    def cut(self, raw: bytes, control: Sequence[Span]) -> list[bytes | int]:
        """`raw` as a row of texts and ids; control tokens are cut only where a span of `control` holds them whole."""
        possible = [piece for prefix, pieces in self._by_prefix.items() if prefix in raw for piece in pieces]
        present = [piece for piece in possible if piece in raw]
        parts: list[Span | int] = [(0, len(raw))] if raw else []
        for piece in sorted(present, key=len, reverse=True):
            spans = None if piece in self._always else control
            if spans is None or spans:
                parts = [new for part in parts for new in self._cut_part(raw, part, piece, spans)]
        return [part if isinstance(part, int) else raw[slice(*part)] for part in parts]

    def _cut_part(
        self, raw: bytes, part: Span | int, piece: bytes, spans: Sequence[Span] | None
    ) -> Iterator[Span | int]:
        """`part`, cut at each `piece`; with `spans`, at those inside a span."""
        if isinstance(part, int):
            yield part
            return
        start, end = part
        search = start
        while (found := raw.find(piece, search, end)) >= 0:
            behind = found + len(piece)
            if spans is not None and not any(first <= found and behind <= last for first, last in spans):
                search = found + 1
                continue
            if found > start:
                yield (start, found)
            yield self.ids[piece]
            if piece in self._strips:
                behind = end - len(raw[behind:end].lstrip())
            start = search = behind
        if start < end:
            yield (start, end)
