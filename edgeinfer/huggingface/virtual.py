"""Opens a folder as the GGUF file it would become: what runs is what `convert` would write."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from edgeinfer.config import MAX_WIDTH
from edgeinfer.errors import EdgeInferError, FormatError, UnsupportedError
from edgeinfer.formats import gguf
from edgeinfer.formats.cursor import printable, shown
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.gguf import GgufFile
from edgeinfer.formats.safetensors import Stored
from edgeinfer.formats.virtual import VirtualFile
from edgeinfer.huggingface import general, modules, pooling, vocabulary
from edgeinfer.huggingface.config import Config
from edgeinfer.huggingface.folder import Folder
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models import huggingface

_TOWER = re.compile(r"(?:model\.)?language_model\.(?:model\.)?(?P<rest>.*)")
_NEWER = {
    "LayerNorm.gamma": "LayerNorm.weight",
    "LayerNorm.beta": "LayerNorm.bias",
}  # as BERT's first folders have
_OLDER = re.compile(rf"\b(?:{'|'.join(map(re.escape, _NEWER))})$")
_OTHERS = re.compile(
    r"(?:model\.)?(?:visual|vit\w*|mlp_AR|vision\w*|audio\w*|multi_modal\w*|patch_merge\w*|vqmodel|embed_vision|embed_audio"
    r"|sam_model|qwen2_model|projector)\..*|model\.view_seperator"
)
_SEEING = ("text_config", "vision_config", "vq_config")


class FolderFile(VirtualFile):
    """The virtual file of a folder, whose tensors are views of the folder's files."""

    def __init__(self, folder: Folder, kind: GgmlType | None) -> None:
        self._folder = folder
        w = _written(folder, kind)
        super().__init__({**general.pairs(folder, w.arch), **w.pairs}, list(w.tensors.values()))

    def check(self) -> None:
        self._folder.check()

    def close(self) -> None:
        super().close()
        self._folder.close()


def open(path: str | os.PathLike[str], override: Mapping[str, object] | None = None) -> GgufFile:
    """The GGUF file that the folder at `path` would become.

    FormatError and UnsupportedError, one line naming the folder and the cause; RequestError as of `gguf.open`."""
    path = os.fsdecode(path)
    return gguf.read(path, source(path), override)


def source(path: str, kind: GgmlType | None = None) -> FolderFile:
    """The bytes of that file, its matrices of type `kind`, or as they are.  Errors as of `open`."""
    try:
        folder = Folder(path)
        try:
            return FolderFile(folder, kind)
        except BaseException:
            folder.close()
            raise
    except EdgeInferError as error:
        raise type(error)(f"{path if path.isprintable() else shown(path)}: {error}") from None


def _written(folder: Folder, kind: GgmlType | None) -> Writer:
    """Everything but what general.py knows."""
    config = folder.config or {}
    classes = config.get("architectures")
    if not isinstance(classes, list) or not classes or not isinstance(classes[0], str):
        raise FormatError("config.json names no class in `architectures`")
    family = huggingface.find(classes[0])
    if config.get("quantization_config") is not None and _method(config) not in getattr(family, "QUANTISED", ()):
        raise UnsupportedError(f"the weights are quantised ({_method(config)}); get them as BF16, F16 or F32")
    stated = {key: value for key, value in _text_config(config).items() if value is not None}
    tensors = {**_text_tensors(folder, getattr(family, "PREFIX", "")), **modules.dense(folder)}
    w = Writer(family.ARCH, classes[0], Config({**getattr(family, "DEFAULTS", {}), **stated}), tensors, kind)
    w.answers = modules.answers(folder)
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            family.write(w)
    except (ValueError, IndexError, ArithmeticError, KeyError) as error:
        if isinstance(error, EdgeInferError):
            raise
        raise FormatError(f"the tensors do not fit the numbers in config.json: {error}") from None
    w.finish()
    embedding = w.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise FormatError("the weights have no embedding of tokens")
    if embedding.shape[0] > MAX_WIDTH:
        raise FormatError(f"the embedding has {embedding.shape[0]} tokens, more than {MAX_WIDTH}")
    w.pairs = pooling.pairs(folder, w.arch) | w.pairs | vocabulary.pairs(folder, w.arch, embedding.shape[0])
    return w


def _method(config: dict[str, Any]) -> str:
    found = config["quantization_config"]
    return printable(str(found.get("quant_method", "unnamed") if isinstance(found, dict) else found)[:50])


def _text_config(config: dict[str, Any]) -> dict[str, Any]:
    """Of models that also see or hear, the part about text; that the output matrix is the embedding says the whole."""
    text = config.get("text_config")
    if not isinstance(text, dict):
        return config
    tied = config.get("tie_word_embeddings")
    return {**config, **text, **({} if tied is None else {"tie_word_embeddings": tied})}


def _text_tensors(folder: Folder, prefix: str) -> dict[str, Stored]:
    """The tensors of the text part, by the names they have where a model is nothing else, with the family's prefix."""
    tensors = {_OLDER.sub(lambda match: _NEWER[match[0]], name): stored for name, stored in folder.tensors.items()}
    if not any(key in (folder.config or {}) for key in _SEEING):
        lost = not any(name.startswith(prefix) for name in tensors)
        return {f"{prefix}{name}" if lost else name: stored for name, stored in tensors.items()}
    found = {}
    for name, stored in tensors.items():
        if match := _TOWER.fullmatch(name):
            rest = match["rest"]
            found[rest if rest.startswith("lm_head.") else f"model.{rest}"] = stored
        elif not _OTHERS.fullmatch(name):
            found[name] = stored
    return found
