"""Op and Value: one operation of a plan and what flows between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Value:
    """float32[tokens, width] that flows between ops."""

    id: int
    width: int


@dataclasses.dataclass(frozen=True)
class Op:
    """One operation; `weights` are tensor names; docs/design.md has the table of kinds and their attrs."""

    kind: str
    out: Value
    ins: tuple[Value, ...] = ()
    weights: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def caches(self) -> bool:
        """Whether it appends keys and values to those of a layer."""
        return "kv_heads" in self.attrs and len(self.ins) > 1
