"""The architectures, one file each, found by the name that GGUF gives them in general.architecture.

Such a file has one function, `forward(b: Builder) -> Value`: the maths from token ids to logits over the verbs of
`edgeinfer.plan.Builder`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgeinfer.errors import UnsupportedError

if TYPE_CHECKING:
    from edgeinfer.plan import Builder, Value

_NO_ARCHITECTURES = {"catalog", "fetch"}  # the modules here that get files instead


def names() -> list[str]:
    """Every architecture there is."""
    return sorted({module.name for module in pkgutil.iter_modules(__path__)} - _NO_ARCHITECTURES)


def find(arch: str) -> Callable[[Builder], Value]:
    """The forward function of `arch`; imports its file only."""
    if arch not in names():
        raise UnsupportedError(f"architecture {arch!r} is not supported; supported are: {' '.join(names())}")
    forward: Callable[[Builder], Value] = importlib.import_module(f"{__name__}.{arch}").forward
    return forward
