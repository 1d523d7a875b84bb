"""Pieces: the tokens of a folder's vocabulary, by id, on their way to GGUF's keys."""

from __future__ import annotations

import dataclasses

from edgeinfer.formats.gguf_header import Value
from edgeinfer.tokenizer.vocabulary import PieceType

_ADDED_SCORE = -1000.0  # of pieces that nothing merges to


@dataclasses.dataclass
class Pieces:
    """`model` is tokenizer.ggml.model; `texts`, `types` and `scores` are by id, the last where the model has them.

    `special` are the tokens that stand for themselves.  `adds_bos` and `adds_eos` are None where no file says."""

    model: str
    texts: dict[int, str | bytes]
    types: dict[int, PieceType]
    scores: dict[int, float] | None = None
    merges: list[str] | None = None
    pre: str | None = None
    keys: dict[str, Value] = dataclasses.field(default_factory=dict)
    special: dict[int, tuple[str, PieceType]] = dataclasses.field(default_factory=dict)
    adds_bos: bool | None = None
    adds_eos: bool | None = None

    def add(self, tokens: dict[int, tuple[str, PieceType]]) -> None:
        """Tokens that stand for themselves; those of SentencePiece that are unknown or bytes stay so."""
        for id, (text, kind) in tokens.items():
            if id >= 0 and self.types.get(id) not in (PieceType.UNKNOWN, PieceType.BYTE):
                self.texts[id], self.types[id] = text, kind

    def table(self, rows: int) -> tuple[list[str | bytes], list[int], list[float] | None]:
        """Texts, types and scores of ids 0..rows-1.  Ids without a piece are filled up; embeddings often have more rows
        than there are tokens.  Pieces beyond the embedding are left out."""
        texts = [self.texts.get(id, f"[PAD{id}]") for id in range(rows)]
        types = [
            int(self.types.get(id, PieceType.NORMAL if id in self.texts else PieceType.UNUSED)) for id in range(rows)
        ]
        if self.scores is None:
            return texts, types, None
        return texts, types, [self.scores.get(id, _ADDED_SCORE) for id in range(rows)]
