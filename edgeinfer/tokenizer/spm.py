"""SentencePiece vocabularies (model type `llama`): pieces joined by score, bytes where no piece fits.

The file's pieces become a model for the sentencepiece library, written down directly in its wire format; making a
quarter million message objects would take longer than all else at start.
Source: https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto."""

from itertools import chain

import numpy as np
import sentencepiece

from edgeinfer.errors import FormatError
from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.utf8 import symbols
from edgeinfer.tokenizer.vocabulary import PieceType, Vocabulary

BLANK = "▁".encode()  # U+2581 stands for a blank in pieces
_BYTES = 256
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


class Spm:
    """Turns text without special tokens into ids."""

    add_bos = True
    drops_blanks = False

    def __init__(self, file: GgufFile, vocabulary: Vocabulary) -> None:
        pieces = vocabulary.pieces
        scores = file.array("tokenizer.ggml.scores", float, None)
        if scores is None:
            scores = np.zeros(len(pieces), np.float32)
        if len(scores) != len(pieces):
            raise FormatError(f"tokenizer.ggml.scores has {len(scores)} values for {len(pieces)} tokens")
        self._bytes = [vocabulary.ids.get(b"<0x%02X>" % byte) for byte in range(_BYTES)]
        self._unknown = len(pieces)
        self.space_prefix = vocabulary.add_space_prefix is not False
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(_model(vocabulary, scores, None not in self._bytes))
        except RuntimeError as error:
            raise FormatError(f"sentencepiece refuses the vocabulary: {' '.join(str(error).split())}") from None

    def encode(self, raw: bytes, exact: bool) -> list[int]:
        """Ids of `raw`.  Broken UTF-8 becomes byte tokens, whether or not `exact`."""
        try:
            return self._encode(raw.decode())
        except UnicodeDecodeError:
            return self._encode_broken(raw)

    def piece_bytes(self, piece: bytes) -> bytes:
        return piece.replace(BLANK, b" ")

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._processor.Encode(text)
        return ids if self._unknown not in ids else [id for id in ids if id != self._unknown]

    def _encode_broken(self, raw: bytes) -> list[int]:
        """Nothing merges across a broken symbol, so the text between them is tokenised on its own."""
        ids: list[int] = []
        text = ""
        for symbol in symbols(raw):
            try:
                text += symbol.decode()
            except UnicodeDecodeError:
                ids += self._encode(text)
                ids += [id for byte in symbol if (id := self._bytes[byte]) is not None]
                text = ""
        return ids + self._encode(text)


def _model(vocabulary: Vocabulary, scores: np.ndarray, byte_fallback: bool) -> bytes:
    """A serialised sentencepiece ModelProto: all pieces of the file, and one more that stands for what has no piece."""
    pieces = _distinct(vocabulary)
    types = vocabulary.types.copy()
    types[(types == PieceType.USER_DEFINED) | (types == PieceType.UNUSED)] = PieceType.NORMAL
    types[types == PieceType.UNKNOWN] = PieceType.CONTROL
    types[types == PieceType.BYTE] = PieceType.BYTE if byte_fallback else PieceType.CONTROL
    pieces.append(b"\xff unknown")
    trainer = b"\x18\x02" + b"\x98\x02" + bytes([byte_fallback])  # model_type BPE; byte_fallback
    normalizer = b"\x18\x00\x20\x00\x28\x01"  # no added blank, no blank removed, blanks written as U+2581
    return b"".join(
        (
            _pieces(pieces, np.append(scores, 0), np.append(types, PieceType.UNKNOWN)),
            b"\x12%c%b" % (len(trainer), trainer),
            b"\x1a%c%b" % (len(normalizer), normalizer),
        )
    )


def _pieces(pieces: list[bytes], scores: np.ndarray, types: np.ndarray) -> bytes:
    """The repeated field `pieces`: for each a length, the text with its length, the score, the type.

    Lengths take three bytes each, whatever they are, so what is between two texts has one size and numpy writes it."""
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    between = np.zeros(len(pieces) + 1, _BETWEEN)
    between["score_tag"], between["type_tag"], between["tag"], between["text_tag"] = 0x15, 0x18, 0x0A, 0x0A
    between["score"][1:], between["type"][1:] = scores, types
    between["size"][:-1], between["text_size"][:-1] = _varint(lengths + _BETWEEN.itemsize - 4), _varint(lengths)
    first, *rest = between.view(f"V{_BETWEEN.itemsize}").tolist()
    return b"".join((first[_END:], *chain.from_iterable(zip(pieces, rest, strict=True))))[: _END - _BETWEEN.itemsize]


def _varint(numbers: np.ndarray) -> np.ndarray:
    """uint8[n, 3]: seven bits a byte, lowest first, the upper bit set on all but the last."""
    return (numbers[:, None] >> [0, 7, 14] & 0x7F | [0x80, 0x80, 0]).astype(np.uint8)


def _distinct(vocabulary: Vocabulary) -> list[bytes]:
    """The pieces as the library wants them: empty ones, those with a zero byte, and all but the last of equal ones get
    texts that no input holds."""
    pieces = list(vocabulary.pieces)
    if len(vocabulary.ids) < len(pieces) or b"" in vocabulary.ids or b"\0" in b"".join(pieces):
        for id, piece in enumerate(pieces):
            if not piece or b"\0" in piece or vocabulary.ids[piece] != id:
                pieces[id] = b"\xff%d" % id
    return pieces
