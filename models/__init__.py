"""The architectures, one file each, found by the name that GGUF gives them in general.architecture.

Such a file has a function `forward(b: Builder) -> Value`: the maths from token ids to logits, or in encoders to a row
for each token, over the verbs of `edgeinfer.plan.Builder`.  Beside it there may be `project(b, row)`, from a text's
pooled row to its embedding, and `rank(b, rows)`, from the rows of a query and a document to a score.  The file's name
has _ where GGUF's has -.  An architecture that is another by a second name is a file with nothing but the import.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from edgeinfer.errors import UnsupportedError

if TYPE_CHECKING:
    from edgeinfer.plan import Builder, Value

_NO_ARCHITECTURES = {"catalog", "fetch", "huggingface"}  # the modules here that get files instead
_LONGEST = 100  # characters of an unknown name that are compared with those that are known


@functools.cache
def names() -> tuple[str, ...]:
    """Every architecture there is, by the name of its file."""
    return tuple(sorted({module.name for module in pkgutil.iter_modules(__path__)} - _NO_ARCHITECTURES))


def find(arch: str) -> Callable[[Builder], Value]:
    """The forward function of `arch`; imports its file only."""
    forward: Callable[[Builder], Value] = _file(arch).forward
    return forward


def part(arch: str, name: str) -> Callable[[Builder, Value], Value] | None:
    """`project` or `rank` of `arch`; None where its file has no such function."""
    found: Callable[[Builder, Value], Value] | None = getattr(_file(arch), name, None)
    return found


def _file(arch: str) -> ModuleType:
    name, known = arch.replace("-", "_"), names()
    if name not in known:
        from edgeinfer.formats.cursor import shown  # the command line imports this package, and no more of others

        closest = ", ".join(difflib.get_close_matches(name[:_LONGEST], known, n=4, cutoff=0.4))
        hint = f"; the closest are: {closest}" if closest else ""
        raise UnsupportedError(f"architecture {shown(arch)} is none of the {len(known)} that are supported{hint}")
    return importlib.import_module(f"{__name__}.{name}")
