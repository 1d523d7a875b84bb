"""The keys general.*: what a model is called, and how its publisher would have tokens chosen."""

import os
from typing import Any

from edgeinfer.formats.gguf_header import Value
from edgeinfer.huggingface.folder import Folder

_SAMPLING = {  # of generation_config.json: GGUF's name after general.sampling., and its kind
    "temperature": ("temp", float),
    "top_k": ("top_k", int),
    "top_p": ("top_p", float),
    "min_p": ("min_p", float),
    "repetition_penalty": ("penalty_repeat", float),
}


def pairs(folder: Folder, arch: str) -> dict[str, Value]:
    found: dict[str, Value] = {"general.architecture": arch, "general.type": "model"}
    name = os.path.basename(os.path.abspath(folder.path))
    if name:
        found["general.name"] = name
    settings: dict[str, Any] = folder.json("generation_config.json") or {}
    if settings.get("do_sample") is True:
        for key, (short, kind) in _SAMPLING.items():
            value = settings.get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1 << 31:
                found[f"general.sampling.{short}"] = kind(value)
    return found
