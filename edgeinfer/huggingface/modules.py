"""What sentence-transformers puts behind a model: modules in folders of their own, which modules.json lists.

Source: https://sbert.net/docs/package_reference/sentence_transformer/models.html."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.formats.json_text import parse
from edgeinfer.formats.safetensors import Stored
from edgeinfer.huggingface.folder import Folder

_LIST = "modules.json"
_IDENTITY = "torch.nn.modules.linear.Identity"
_LONGEST = 255  # letters of a file's name
_RANKER = re.compile(rb"^# *qwen3-reranker", re.IGNORECASE | re.MULTILINE)  # in README.md


def dense(folder: Folder) -> Mapping[str, Stored]:
    """The tensors of linear layers, by the name of their folder, a dot and their own.

    UnsupportedError where one does more than that."""
    found: dict[str, Stored] = {}
    for place, settings in _settings(folder, "Dense"):
        activation = settings.get("activation_function", "torch.nn.modules.activation.Tanh")
        if activation != _IDENTITY:
            raise UnsupportedError(f"{place} has the activation {shown(str(activation))}; known is {_IDENTITY}")
        found |= {f"{place}.{name}": stored for name, stored in folder.weights(place).items()}
    return found


def answers(folder: Folder) -> tuple[int, int] | None:
    """The ids of the tokens whose logits a ranker compares, "yes" first; None where the folder is no such ranker.

    Older folders have no module for it; the name is in README.md then."""
    if module := next(_settings(folder, "LogitScore"), None):
        place, settings = module
        yes, no = settings.get("true_token_id"), settings.get("false_token_id")
    elif _RANKER.search(folder.bytes("README.md") or b""):
        place, model = "tokenizer.json", (folder.json("tokenizer.json") or {}).get("model")
        pieces = model.get("vocab") if isinstance(model, dict) else None
        yes, no = (pieces.get("yes"), pieces.get("no")) if isinstance(pieces, dict) else (None, None)
    else:
        return None
    if type(yes) is not int or type(no) is not int:
        raise FormatError(f'{place} does not say which tokens are "yes" and "no", of which a ranker answers one')
    return yes, no


def _settings(folder: Folder, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Folders of the modules of a kind, and what their config.json says."""
    raw = folder.bytes(_LIST)
    listed = [] if raw is None else parse(raw, _LIST)
    if not isinstance(listed, list) or not all(isinstance(module, dict) for module in listed):
        raise FormatError(f"{_LIST} is no list of modules")
    for module in listed:
        if str(module.get("type")).rpartition(".")[2] == kind:
            place = module.get("path")
            if not isinstance(place, str) or not _is_name(place):
                raise FormatError(f"{_LIST} names {shown(str(place))}, which is no folder of this one")
            yield place, folder.json(f"{place}/config.json") or {}


def _is_name(place: str) -> bool:
    """Whether it names a folder in another, in letters that an error can show."""
    plain = place not in ("", "..") and place == os.path.basename(place)
    return plain and place.isprintable() and len(place) <= _LONGEST
