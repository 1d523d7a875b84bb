"""The vocabulary of a GGUF file: its pieces, their types, the ids with a meaning, and the flags.

Source: the keys tokenizer.ggml.* of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md."""

import enum
import warnings
from dataclasses import dataclass

import numpy as np

from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.formats.gguf import GgufFile
from edgeinfer.formats.strings import Strings
from edgeinfer.tokenizer.well_known import END_TEXTS, FILL_TEXTS

MODELS = ("bert", "gemma4", "gpt2", "llama", "plamo2", "rwkv", "t5")
BLANK = "▁".encode()  # U+2581 stands for a blank in pieces
_MAX_PIECE = 1 << 16  # bytes

# Where the id of a role is in the file, the first key found, and what a model means if no key is there.
_KEYS = {"bos": ("bos", "cls"), "eos": ("eos",), "unknown": ("unknown",)}
_BERT_KEYS = _KEYS | {"eos": ("seperator",)}  # so spelt
_DEFAULTS: dict[str, dict[str, int]] = {
    "llama": {"bos": 1, "eos": 2, "unknown": 0},
    "bert": {"bos": 101, "eos": 102, "unknown": 100},
    "plamo2": {"bos": 1, "eos": 2, "unknown": 0},
    "t5": {"eos": 1, "unknown": 2},
}


class PieceType(enum.IntEnum):
    """tokenizer.ggml.token_type"""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Vocabulary:
    """What a file says about its tokens.  Absent ids are None, and add_bos where the file leaves it open.

    `bos_id` and `eos_id` go around a text; in `bert` vocabularies they are [CLS] and [SEP].
    `swallows_blanks`: special tokens swallow the blanks behind them."""

    model: str
    pieces: Strings
    longest: int  # bytes of a piece
    types: np.ndarray  # uint8[vocab], of PieceType
    bos_id: int | None
    eos_id: int | None
    unknown_id: int | None
    eog_ids: frozenset[int]
    add_bos: bool | None
    add_eos: bool
    add_space_prefix: bool | None
    swallows_blanks: bool


def read_vocabulary(file: GgufFile) -> Vocabulary:
    """FormatError if the vocabulary is missing or malformed, UnsupportedError if it is of another model than MODELS."""
    model = file.get("tokenizer.ggml.model", str)
    if model not in MODELS:
        raise UnsupportedError(f"tokenizer model {shown(model)}; there are {', '.join(MODELS)}")
    pieces = file.strings("tokenizer.ggml.tokens")
    if not len(pieces):
        raise FormatError("tokenizer.ggml.tokens is empty")
    if (longest := pieces.longest) > _MAX_PIECE:
        raise FormatError(f"tokenizer.ggml.tokens has a token of {longest} bytes, more than {_MAX_PIECE}")
    types = _types(file, len(pieces))
    special = {role: _special_id(file, model, role, len(pieces)) for role in _KEYS}
    named = [_id_of_key(file, name, len(pieces)) for name in ("eot", "eom")]
    eog_ids = _end_of_generation(pieces, types) | {i for i in (special["eos"], *named) if i is not None}
    add_bos = file.get("tokenizer.ggml.add_bos_token", bool, None)
    add_eos = file.get("tokenizer.ggml.add_eos_token", bool, model == "t5")
    name = file.get("general.name", str, "").lower()
    return Vocabulary(
        model=model,
        pieces=pieces,
        longest=longest,
        types=types,
        bos_id=special["bos"],
        eos_id=special["eos"],
        unknown_id=special["unknown"],
        eog_ids=frozenset(eog_ids),
        add_bos=True if model in ("bert", "gemma4") else add_bos,  # the first files of gemma4 say no, and are wrong
        add_eos=add_eos or model == "bert",
        add_space_prefix=file.get("tokenizer.ggml.add_space_prefix", bool, None),
        swallows_blanks="phi-3" in name or "phi3" in name,  # no key says so, and no other vocabulary does it
    )


def byte_ids(vocabulary: Vocabulary) -> list[int | None]:
    """For each byte the id of its piece <0xXX>."""
    texts = [b"<0x%02X>" % byte for byte in range(256)]
    ids = vocabulary.pieces.find(texts)
    return [ids.get(text) for text in texts]


def _types(file: GgufFile, count: int) -> np.ndarray:
    types = file.array("tokenizer.ggml.token_type", int, None)
    if types is None:
        return np.full(count, PieceType.NORMAL, np.uint8)
    if len(types) != count:
        raise FormatError(f"tokenizer.ggml.token_type has {len(types)} values for {count} tokens")
    known = (types >= min(PieceType)) & (types <= max(PieceType))
    return np.where(known, types, PieceType.NORMAL).astype(np.uint8)


def _special_id(file: GgufFile, model: str, role: str, count: int) -> int | None:
    """The id that the file gives to a role, or what the model means where it gives none."""
    for name in (_BERT_KEYS if model == "bert" else _KEYS)[role]:
        if (found := _id_of_key(file, name, count)) is not None:
            return found
    default = _DEFAULTS.get(model, {}).get(role)
    return default if default is not None and default < count else None


def _id_of_key(file: GgufFile, name: str, count: int) -> int | None:
    """The id of a key; one outside the vocabulary is ignored."""
    key = f"tokenizer.ggml.{name}_token_id"
    found: int | None = file.get(key, int, None)
    if found is not None and not 0 <= found < count:
        warnings.warn(f"{key} is {found}, but the tokens are 0..{count - 1}: ignored", stacklevel=2)
        return None
    return found


def _end_of_generation(pieces: Strings, types: np.ndarray) -> set[int]:
    """Ids of pieces that are known to end a turn.

    They and the fill-in-the-middle pieces become control tokens in `types`: many files get that wrong."""
    ids = pieces.find([*END_TEXTS, *(text for texts, _ in FILL_TEXTS for text in texts)])
    ends = {text: ids[text] for text in END_TEXTS if text in ids}
    if {b"<|return|>", b"<|call|>", b"<|end|>"} <= ends.keys():
        del ends[b"<|end|>"]  # in this family of models it only ends a message, and the turn goes on
    found = set(ends.values())
    for texts, ends_text in FILL_TEXTS:
        id = next((ids[text] for text in texts if text in ids), None)
        if id is not None:
            types[id] = PieceType.CONTROL
            found |= {id} if ends_text else set()
    types[list(found)] = PieceType.CONTROL
    return found
