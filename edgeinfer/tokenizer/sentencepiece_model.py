"""Models for the sentencepiece library, written down directly in its wire format from a file's pieces.

Making a quarter million message objects would take longer than all else at start.
Source: https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sentencepiece

from edgeinfer.errors import FormatError
from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.vocabulary import PieceType

UNIGRAM, BPE = 1, 2  # model_type
_UNKNOWN = b"\xff unknown"  # what no piece fits; not UTF-8, so it is in no text
_END = 7  # bytes of what ends a piece in _BETWEEN, the others begin the next
_BETWEEN = np.dtype(
    [
        ("score_tag", "u1"),
        ("score", "<f4"),
        ("type_tag", "u1"),
        ("type", "u1"),
        ("tag", "u1"),
        ("size", "u1", 3),
        ("text_tag", "u1"),
        ("text_size", "u1", 3),
    ]
)


@dataclass(frozen=True)
class Normalizer:
    """What happens to a text first: blanks become U+2581 in any case.

    `add_prefix`: a blank goes before it.  `merge_blanks`: of several blanks one stays, and none at the ends.
    `charsmap`: the library's compiled rules that replace characters, none if empty."""

    add_prefix: bool = False
    merge_blanks: bool = False
    charsmap: bytes = b""

    def serialised(self) -> bytes:
        return _field(b"\x12", self.charsmap) + b"\x18%c\x20%c\x28\x01" % (self.add_prefix, self.merge_blanks)


def scores(file: GgufFile, count: int) -> np.ndarray:
    """The scores of `count` pieces; FormatError where there are others."""
    found = file.array("tokenizer.ggml.scores", float, None)
    if found is None:
        return np.zeros(count, np.float32)
    if len(found) != count:
        raise FormatError(f"tokenizer.ggml.scores has {len(found)} values for {count} tokens")
    return np.array(found)


def make_processor(
    pieces: list[bytes],
    scores: np.ndarray,
    types: np.ndarray,
    kind: int,
    normalizer: Normalizer,
    byte_pieces: Sequence[int] = (),
) -> sentencepiece.SentencePieceProcessor:
    """A processor that gives the places of pieces, and their number where none fits.

    `types` are of PieceType; `kind` is UNIGRAM or BPE; `byte_pieces` are the places of the 256 bytes, if text without a
    piece becomes bytes.  FormatError for pieces that do not fit."""
    trainer = b"\x18%c\x98\x02%c" % (kind, len(byte_pieces) > 0)
    specs = _field(b"\x12", trainer) + _field(b"\x1a", normalizer.serialised())
    scores, types = np.append(scores, 0), np.append(_types(types, byte_pieces), PieceType.UNKNOWN)
    processor = sentencepiece.SentencePieceProcessor()
    # of a lone zero byte the library would tell the user, all else that it does not take it refuses
    given = _distinct(pieces) if b"\0" in pieces else pieces
    try:
        try:
            processor.LoadFromSerializedProto(_pieces([*given, _UNKNOWN], scores, types) + specs)
        except RuntimeError:
            processor.LoadFromSerializedProto(_pieces([*_distinct(pieces), _UNKNOWN], scores, types) + specs)
    except (RuntimeError, UnicodeDecodeError) as error:  # the latter where the library quotes a piece that is no text
        raise FormatError(f"sentencepiece refuses the vocabulary: {' '.join(str(error).split())}") from None
    return processor


def _types(types: np.ndarray, byte_pieces: Sequence[int]) -> np.ndarray:
    """The types as the library should take them: it leaves unused pieces out of texts, llama.cpp does not."""
    types = types.copy()
    types[(types == PieceType.USER_DEFINED) | (types == PieceType.UNUSED)] = PieceType.NORMAL
    types[(types == PieceType.UNKNOWN) | (types == PieceType.BYTE)] = PieceType.CONTROL
    types[list(byte_pieces)] = PieceType.BYTE
    return types


def _pieces(pieces: list[bytes], scores: np.ndarray, types: np.ndarray) -> bytes:
    """The repeated field `pieces`: for each a length, the text with its length, the score, the type.

    Lengths take three bytes each, whatever they are, so what is between two texts has one size and numpy writes it."""
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    between = np.zeros(len(pieces) + 1, _BETWEEN)
    between["score_tag"], between["type_tag"], between["tag"], between["text_tag"] = 0x15, 0x18, 0x0A, 0x0A
    between["score"][1:], between["type"][1:] = scores, types
    between["size"][:-1], between["text_size"][:-1] = _varint(lengths + _BETWEEN.itemsize - 4), _varint(lengths)
    runs = np.full(2 * len(pieces) + 1, _BETWEEN.itemsize)
    runs[1::2] = lengths
    is_text = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    field = np.empty(len(is_text), np.uint8)
    field[is_text] = np.frombuffer(b"".join(pieces), np.uint8)
    field[~is_text] = between.view(np.uint8)
    return field[_END : _END - _BETWEEN.itemsize].tobytes()


def _varint(numbers: np.ndarray) -> np.ndarray:
    """uint8[n, 3]: seven bits a byte, lowest first, the upper bit set on all but the last."""
    return np.stack([numbers & 0x7F | 0x80, numbers >> 7 & 0x7F | 0x80, numbers >> 14], axis=1).astype(np.uint8)


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + _varint(np.array([len(content)])).tobytes() + content


def _distinct(pieces: list[bytes]) -> list[bytes]:
    """The pieces as the library wants them: empty ones, those with a zero byte, and all but the last of equal ones get
    texts that no input holds."""
    places = dict(zip(pieces, range(len(pieces)), strict=True))
    return [
        b"\xff%d" % place if not piece or b"\0" in piece or places[piece] != place else piece
        for place, piece in enumerate(pieces)
    ]
