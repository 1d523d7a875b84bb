"""tokenizer.json: byte-level BPE, BPE of SentencePiece's kind, WordPiece and Unigram.

Source: https://huggingface.co/docs/tokenizers/components."""

from __future__ import annotations

import base64
import binascii
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.formats.gguf_header import Value
from edgeinfer.huggingface import pretokenizer
from edgeinfer.huggingface.pieces import Pieces
from edgeinfer.tokenizer.vocabulary import BLANK, PieceType

_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
_MAX_ID = 1 << 24


def read(file: dict[str, Any], arch: str) -> Pieces:
    """FormatError where the file is malformed, UnsupportedError for a model that is not known here."""
    model = file.get("model")
    if not isinstance(model, dict):
        raise FormatError("tokenizer.json has no model")
    kind = model.get("type", "BPE" if "merges" in model else None)
    special = _added(file)
    if kind == "BPE":
        byte_level = any(
            step.get("type") == "ByteLevel" for part in ("pre_tokenizer", "decoder") for step in _steps(file.get(part))
        )
        pieces = _byte_level(file, model, arch) if byte_level else _sentencepiece(file, model, arch)
    elif kind == "WordPiece":
        pieces = _wordpiece(model, special)
        pieces.keys |= _kept(file)
    elif kind == "Unigram":
        pieces = _unigram(file, model)
    else:
        raise UnsupportedError(f"tokenizer.json has the model {shown(str(kind))}; known are BPE, WordPiece and Unigram")
    pieces.special = special
    pieces.add(special)
    pieces.adds_bos, pieces.adds_eos = _around(file.get("post_processor"))
    return pieces


def _byte_level(file: dict[str, Any], model: dict[str, Any], arch: str) -> Pieces:
    texts = _vocabulary(model)
    pre = pretokenizer.name(file.get("pre_tokenizer"), model.get("ignore_merges") is True, arch)
    return Pieces("gpt2", texts, {id: PieceType.NORMAL for id in texts}, merges=_merges(model), pre=pre)


def _sentencepiece(file: dict[str, Any], model: dict[str, Any], arch: str) -> Pieces:
    """Pieces are scored by the place of the first pair that makes them, which is the order they are joined in.

    Gemma 4's keep the pairs themselves."""
    texts, merges = _vocabulary(model), _merges(model)
    types = {id: PieceType.BYTE if _BYTE.fullmatch(str(text)) else PieceType.NORMAL for id, text in texts.items()}
    for id, text in texts.items():
        if text == model.get("unk_token"):
            types[id] = PieceType.UNKNOWN
    if arch == "gemma4":
        return Pieces("gemma4", texts, types, merges=merges)
    ranks: dict[str, int] = {}
    for rank, merge in enumerate(merges):
        ranks.setdefault(merge.replace(" ", ""), rank)
    scores = {id: -float(ranks.get(str(text), len(ranks))) for id, text in texts.items()}
    keys: dict[str, Value] = {"tokenizer.ggml.pre": "default", "tokenizer.ggml.add_space_prefix": _prefixed(file)}
    return Pieces("llama", texts, types, scores, keys=keys)


def _wordpiece(model: dict[str, Any], special: dict[int, tuple[str, PieceType]]) -> Pieces:
    """In GGUF it is the pieces that begin a word that are marked, and not those that go on."""
    prefix = model.get("continuing_subword_prefix", "##")
    texts = _vocabulary(model)
    for id, text in texts.items():
        if id not in special and isinstance(prefix, str) and isinstance(text, str):
            goes_on = prefix and text.startswith(prefix)
            texts[id] = text.removeprefix(prefix) if goes_on else BLANK.decode() + text
    return Pieces("bert", texts, {id: PieceType.NORMAL for id in texts})


def _kept(file: dict[str, Any]) -> dict[str, Value]:
    """Keys for capital letters and marks that stay; GGUF's WordPiece has none where both go."""
    steps = {str(step.get("type")): step for step in _steps(file.get("normalizer"))}
    bert = steps.get("BertNormalizer", {})
    lowers = "Lowercase" in steps or bool(bert and bert.get("lowercase", True))
    strips = "StripAccents" in steps or bert.get("strip_accents")
    strips = lowers if strips is None else bool(strips)
    if bert.get("handle_chinese_chars") is False:
        warnings.warn("tokenizer.json keeps Chinese characters together, which GGUF's WordPiece does not", stacklevel=2)
    if lowers and strips:
        return {}
    return {"tokenizer.ggml.normalizer.lowercase": lowers, "tokenizer.ggml.normalizer.strip_accents": strips}


def _unigram(file: dict[str, Any], model: dict[str, Any]) -> Pieces:
    rows = model.get("vocab")
    if not isinstance(rows, list) or not all(
        isinstance(row, list) and len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], (int, float))
        for row in rows
    ):
        raise FormatError("tokenizer.json: the vocabulary of a Unigram model is no list of pieces and scores")
    texts: dict[int, str | bytes] = {id: row[0] for id, row in enumerate(rows)}
    types = {id: PieceType.BYTE if _BYTE.fullmatch(row[0]) else PieceType.NORMAL for id, row in enumerate(rows)}
    if type(model.get("unk_id")) is int:
        types[model["unk_id"]] = PieceType.UNKNOWN
    pieces = Pieces("t5", texts, types, {id: float(row[1]) for id, row in enumerate(rows)})
    pieces.keys["tokenizer.ggml.add_space_prefix"] = _prefixed(file)
    steps = list(_steps(file.get("normalizer")))
    pieces.keys["tokenizer.ggml.remove_extra_whitespaces"] = any(
        step.get("type") in ("Precompiled", "Strip") or step.get("pattern") == {"Regex": " {2,}"} for step in steps
    )
    for step in steps:
        if step.get("type") == "Precompiled" and isinstance(step.get("precompiled_charsmap"), str):
            try:
                raw = base64.b64decode(step["precompiled_charsmap"], validate=True)
            except binascii.Error:
                raise FormatError("tokenizer.json: precompiled_charsmap is no base64") from None
            pieces.keys["tokenizer.ggml.precompiled_charsmap"] = np.frombuffer(raw, np.uint8)
    return pieces


def _vocabulary(model: dict[str, Any]) -> dict[int, str | bytes]:
    """The pieces by id."""
    ids = model.get("vocab")
    if not isinstance(ids, dict) or not all(type(id) is int and 0 <= id < _MAX_ID for id in ids.values()):
        raise FormatError("tokenizer.json: the vocabulary is no object of pieces and ids")
    return {id: text for text, id in ids.items()}


def _merges(model: dict[str, Any]) -> list[str]:
    """The pairs, each as two texts with a blank between them; newer files have a list of two."""
    merges = model.get("merges")
    if not isinstance(merges, list):
        raise FormatError("tokenizer.json: a BPE model without merges")
    lines = []
    for merge in merges:
        if isinstance(merge, list) and len(merge) == 2 and all(isinstance(part, str) for part in merge):
            merge = " ".join(merge)
        if not isinstance(merge, str):
            raise FormatError("tokenizer.json: a merge is no pair of texts")
        lines.append(merge)
    return lines


def _added(file: dict[str, Any]) -> dict[int, tuple[str, PieceType]]:
    tokens = file.get("added_tokens") or []
    if not isinstance(tokens, list):
        raise FormatError("tokenizer.json: added_tokens is no list")
    found = {}
    for token in tokens:
        if not isinstance(token, dict) or type(token.get("id")) is not int or not isinstance(token.get("content"), str):
            raise FormatError("tokenizer.json: an added token has no id or content")
        kind = PieceType.CONTROL if token.get("special") is True else PieceType.USER_DEFINED
        found[token["id"]] = (token["content"], kind)
    return found


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """The steps of a pre-tokenizer, normalizer, decoder or post-processor, sequences taken apart."""
    if not isinstance(part, dict):
        return
    yield part
    for name in ("pretokenizers", "normalizers", "decoders", "processors"):
        steps = part.get(name)
        for step in steps if isinstance(steps, list) else []:
            yield from _steps(step)


def _prefixed(file: dict[str, Any]) -> bool:
    """Whether a blank goes before a text."""
    for step in (*_steps(file.get("normalizer")), *_steps(file.get("pre_tokenizer"))):
        if step.get("type") == "Prepend":
            return True
        if step.get("type") == "Metaspace":
            scheme = step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never")
            return bool(scheme != "never")
    return False


def _around(part: Any) -> tuple[bool | None, bool | None]:
    """Whether a token goes before and behind a single text, None where nothing is said."""
    for step in _steps(part):
        if step.get("type") == "TemplateProcessing" and isinstance(step.get("single"), list):
            tokens = ["SpecialToken" in item if isinstance(item, dict) else False for item in step["single"]]
            return bool(tokens) and tokens[0], bool(tokens) and tokens[-1]
        if step.get("type") in ("BertProcessing", "RobertaProcessing"):
            return True, True
    return None, None
