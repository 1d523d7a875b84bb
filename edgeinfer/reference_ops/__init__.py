"""What each op kind computes, in plain numpy: OPS has the function for every kind of `edgeinfer.verbs`."""

from __future__ import annotations

from collections.abc import Callable

from edgeinfer.reference_ops import attention, experts, recurrence, rows
from edgeinfer.reference_ops.step import Array

OPS: dict[str, Callable[..., Array]] = {**rows.OPS, **attention.OPS, **experts.OPS, **recurrence.OPS}
