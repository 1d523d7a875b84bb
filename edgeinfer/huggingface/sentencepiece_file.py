"""tokenizer.model: a SentencePiece model, read in its wire format.

Source: https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats.gguf_header import Value
from edgeinfer.huggingface.pieces import Pieces
from edgeinfer.tokenizer.vocabulary import PieceType

_MODELS = {1: "t5", 2: "llama"}  # model_type: tokenizer.ggml.model
_PIECE, _TRAINER, _NORMALIZER = 1, 2, 3  # fields of the model
_WHAT = "tokenizer.model is no SentencePiece model, or a truncated one"


def read(raw: bytes) -> Pieces:
    """FormatError if it is no such model, UnsupportedError if it is one of words or characters."""
    trainer: dict[int, int | bytes] = {}
    normalizer: dict[int, int | bytes] = {}
    texts: dict[int, str | bytes] = {}
    types: dict[int, PieceType] = {}
    scores: dict[int, float] = {}
    for number, value in _fields(raw):
        if number == _PIECE and isinstance(value, bytes):
            fields, id = dict(_fields(value)), len(texts)
            text, kind = fields.get(1, b""), fields.get(3, 1)
            if not isinstance(text, bytes) or kind not in set(PieceType):
                raise FormatError(_WHAT)
            texts[id], types[id] = text, PieceType(int(kind))
            scores[id] = struct.unpack("<f", _four(fields.get(2, b"\0\0\0\0")))[0]
        elif number == _TRAINER and isinstance(value, bytes):
            trainer = dict(_fields(value))
        elif number == _NORMALIZER and isinstance(value, bytes):
            normalizer = dict(_fields(value))
    if not texts:
        raise FormatError(_WHAT)
    kind = trainer.get(3, 1)
    if kind not in _MODELS:
        raise UnsupportedError("tokenizer.model is of words or characters; known are pieces of BPE and Unigram")
    return Pieces(_MODELS[int(kind)], texts, types, scores, keys=_normalizer_keys(normalizer, _MODELS[int(kind)]))


def _normalizer_keys(fields: dict[int, int | bytes], model: str) -> dict[str, Value]:
    found: dict[str, Value] = {"tokenizer.ggml.add_space_prefix": bool(fields.get(3, 1))}
    if model == "llama":
        return {"tokenizer.ggml.pre": "default", **found}
    found["tokenizer.ggml.remove_extra_whitespaces"] = bool(fields.get(4, 1))
    charsmap = fields.get(2, b"")
    if isinstance(charsmap, bytes) and charsmap:
        found["tokenizer.ggml.precompiled_charsmap"] = np.frombuffer(charsmap, np.uint8)
    return found


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: (number, integer of a varint, or bytes of all else)."""
    place = 0
    while place < len(raw):
        tag, place = _varint(raw, place)
        wire = tag & 7
        if wire == 0:
            number, place = _varint(raw, place)
            yield tag >> 3, number
            continue
        if wire == 2:
            size, place = _varint(raw, place)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise FormatError(_WHAT)
        if place + size > len(raw):
            raise FormatError(_WHAT)
        yield tag >> 3, raw[place : place + size]
        place += size


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    """The number at a place, seven bits a byte, and the place behind it."""
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(raw):
            break
        byte = raw[place]
        number, place = number | (byte & 0x7F) << shift, place + 1
        if byte < 0x80:
            return number, place
    raise FormatError(_WHAT)


def _four(value: int | bytes) -> bytes:
    if not isinstance(value, bytes) or len(value) != 4:
        raise FormatError(_WHAT)
    return value
