"""The keys tokenizer.*: pieces, ids with a meaning, and the chat template, from the tokenizer's files of a folder."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np

from edgeinfer.errors import FormatError
from edgeinfer.formats.gguf_header import Value
from edgeinfer.formats.json_text import parse_object
from edgeinfer.huggingface import sentencepiece_file, tokenizer_json
from edgeinfer.huggingface.folder import Folder
from edgeinfer.huggingface.pieces import Pieces
from edgeinfer.tokenizer.vocabulary import PieceType
from edgeinfer.tokenizer.well_known import END_TEXTS

_ROLES = {
    "bos": "bos",
    "eos": "eos",
    "unk": "unknown",
    "pad": "padding",
    "sep": "seperator",
    "cls": "cls",
    "mask": "mask",
}
_MORE_ENDS = ("eot", "eom")  # keys for further ids that end a text


def pairs(folder: Folder, arch: str, rows: int) -> dict[str, Value]:
    """The keys of a vocabulary of `rows` tokens, as many as the embedding has.

    FormatError where the files are missing or malformed, UnsupportedError for a kind that is not known here."""
    pieces = _read(folder, arch)
    settings: dict[str, Any] = folder.json("tokenizer_config.json") or {}
    pieces.add(_added(folder, settings))
    texts, types, scores = pieces.table(rows)
    found: dict[str, Value] = {"tokenizer.ggml.model": pieces.model}
    if pieces.pre:
        found["tokenizer.ggml.pre"] = pieces.pre
    found["tokenizer.ggml.tokens"] = texts
    found["tokenizer.ggml.token_type"] = np.array(types, np.int32)
    if scores is not None:
        found["tokenizer.ggml.scores"] = np.array(scores, np.float32)
    if pieces.merges is not None:
        found["tokenizer.ggml.merges"] = pieces.merges
    found |= pieces.keys
    if PieceType.UNKNOWN in types:
        found["tokenizer.ggml.unknown_token_id"] = types.index(PieceType.UNKNOWN)
    found |= _ids(folder, settings, {text: id for id, text in enumerate(texts)})
    found |= _around(settings, pieces, found)
    return found | _templates(folder, settings)


def _read(folder: Folder, arch: str) -> Pieces:
    """tokenizer.json says of what kind the vocabulary is; tokenizer.model has the scores of SentencePiece's kinds."""
    described, model = folder.json("tokenizer.json"), folder.bytes("tokenizer.model")
    if described is not None:
        pieces = tokenizer_json.read(described, arch)
        if model is None or pieces.model != "llama":
            return pieces
        scored = sentencepiece_file.read(model)
        scored.add(pieces.special)
        return dataclasses.replace(scored, adds_bos=pieces.adds_bos, adds_eos=pieces.adds_eos)
    if model is not None:
        return sentencepiece_file.read(model)
    raise FormatError("the folder has neither tokenizer.json nor tokenizer.model")


def _added(folder: Folder, settings: dict[str, Any]) -> dict[int, tuple[str, PieceType]]:
    """Tokens that the other files add."""
    found = {}
    for text, id in (folder.json("added_tokens.json") or {}).items():
        if type(id) is int:
            found[id] = (text, PieceType.USER_DEFINED)
    decoder = settings.get("added_tokens_decoder")
    for id, token in (decoder if isinstance(decoder, dict) else {}).items():
        if re.fullmatch(r"\d{1,9}", id) and isinstance(token, dict) and isinstance(token.get("content"), str):
            kind = PieceType.CONTROL if token.get("special") is True else PieceType.USER_DEFINED
            found[int(id)] = (token["content"], kind)
    return found


def _ids(folder: Folder, settings: dict[str, Any], ids: dict[str | bytes, int]) -> dict[str, Value]:
    """Ids with a meaning: those of the texts in tokenizer_config.json, else those in config.json."""
    found: dict[str, Value] = {}
    config = folder.config or {}
    nested = config.get("text_config")
    config = {**config, **(nested if isinstance(nested, dict) else {})}
    for role, name in _ROLES.items():
        token = settings.get(f"{role}_token")
        text = token.get("content") if isinstance(token, dict) else token
        id = ids.get(text) if isinstance(text, str) else next(iter(_listed(config.get(f"{role}_token_id"))), None)
        if id is not None and 0 <= id < len(ids):
            found[f"tokenizer.ggml.{name}_token_id"] = id
    texts = {id: text for text, id in ids.items()}
    generation = folder.json("generation_config.json") or {}
    ends = [*_listed(generation.get("eos_token_id")), *_listed(config.get("eos_token_id"))]
    known = {found.get("tokenizer.ggml.eos_token_id")}
    for id in dict.fromkeys(ends):
        text = texts.get(id, "")
        raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        if id in texts and id not in known and raw not in END_TEXTS and len(known) <= len(_MORE_ENDS):
            found[f"tokenizer.ggml.{_MORE_ENDS[len(known) - 1]}_token_id"] = id
            known.add(id)
    return found


def _listed(value: Any) -> list[int]:
    return [id for id in (value if isinstance(value, list) else [value]) if type(id) is int]


def _around(settings: dict[str, Any], pieces: Pieces, found: dict[str, Value]) -> dict[str, Value]:
    """Whether BOS and EOS go around a text."""
    adds = {"bos": pieces.adds_bos, "eos": pieces.adds_eos}
    for role in adds:
        if isinstance(settings.get(f"add_{role}_token"), bool):
            adds[role] = settings[f"add_{role}_token"]
    return {
        f"tokenizer.ggml.add_{role}_token": value
        for role, value in adds.items()
        if value is not None and (not value or f"tokenizer.ggml.{role}_token_id" in found)
    }


def _templates(folder: Folder, settings: dict[str, Any]) -> dict[str, Value]:
    """The chat template, and others by their names."""
    template: Any = settings.get("chat_template")
    if (raw := folder.bytes("chat_template.jinja")) is not None:
        template = raw.decode("utf-8", "replace")
    elif template is None and (raw := folder.bytes("chat_template.json")) is not None:
        template = parse_object(raw, "chat_template.json").get("chat_template")
    if isinstance(template, str):
        return {"tokenizer.chat_template": template}
    named = {}
    for entry in template if isinstance(template, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("name"), str) and isinstance(entry.get("template"), str):
            name = entry["name"]
            named["tokenizer.chat_template" + ("" if name == "default" else f".{name}")] = entry["template"]
    return dict(named)
