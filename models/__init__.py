"""The architectures, one file each, found by the name that GGUF gives them in general.architecture.

Such a file has one function, `forward(b: Builder) -> Value`: the maths from token ids to logits over the verbs of
`edgeinfer.plan.Builder`.  Its name has _ where GGUF's has -.  An architecture that is another by a second name is a
file with nothing but the import.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgeinfer.errors import UnsupportedError

if TYPE_CHECKING:
    from edgeinfer.plan import Builder, Value

_NO_ARCHITECTURES = {"catalog", "fetch", "huggingface"}  # the modules here that get files instead


def names() -> list[str]:
    """Every architecture there is, by the name of its file."""
    return sorted({module.name for module in pkgutil.iter_modules(__path__)} - _NO_ARCHITECTURES)


def find(arch: str) -> Callable[[Builder], Value]:
    """The forward function of `arch`; imports its file only."""
    name, known = arch.replace("-", "_"), names()
    if name not in known:
        closest = ", ".join(difflib.get_close_matches(name, known, n=4, cutoff=0.4))
        hint = f"; the closest are: {closest}" if closest else ""
        raise UnsupportedError(f"architecture {arch!r} is none of the {len(known)} that are supported{hint}")
    forward: Callable[[Builder], Value] = importlib.import_module(f"{__name__}.{name}").forward
    return forward
