"""How Hugging Face's folders become GGUF files, one file for each architecture, named as its forward pass.

Such a file has ARCH, GGUF's name of the architecture; CLASSES, the names in config.json's `architectures`; and
`write(w: Writer)`, which writes down the keys and, by the names of the folder's, the tensors.  It may have DEFAULTS,
what holds where config.json leaves numbers out; PREFIX, which some folders leave out of all tensors' names; and
QUANTISED, the forms of quantised weights it takes.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from types import ModuleType

from edgeinfer.errors import UnsupportedError
from edgeinfer.formats.cursor import shown


def classes() -> dict[str, ModuleType]:
    """Every class there is and its module; imports all of them, small as they are."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    return {name: module for module in modules for name in module.CLASSES}


def find(name: str) -> ModuleType:
    """The module of the class `name`."""
    known = classes()
    if name not in known:
        closest = ", ".join(difflib.get_close_matches(name, known, n=3, cutoff=0.4))
        hint = f"; the closest are: {closest}" if closest else ""
        raise UnsupportedError(f"class {shown(name)} is none of the {len(known)} that are supported{hint}")
    return known[name]
