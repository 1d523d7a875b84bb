"""Opens a model, be it a GGUF file or a folder of Hugging Face's."""

import os
from collections.abc import Mapping

from edgeinfer.formats import gguf
from edgeinfer.formats.gguf import GgufFile


def open(path: str | os.PathLike[str], override: Mapping[str, object] | None = None) -> GgufFile:
    """The GGUF file at `path`, or the one that the folder at `path` would become.  Arguments and errors as of
    `gguf.open`."""
    if os.path.isdir(path):
        from edgeinfer.huggingface import virtual

        return virtual.open(path, override)
    return gguf.open(path, override)
