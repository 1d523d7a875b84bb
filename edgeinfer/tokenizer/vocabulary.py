"""The vocabulary of a GGUF file: its pieces, their types, the ids with a meaning, and the flags.

Source: the keys tokenizer.ggml.* of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md."""

import enum
import warnings
from dataclasses import dataclass

import numpy as np

from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.well_known import END_TEXTS, FILL_TEXTS

MODELS = ("gpt2", "llama")
_MAX_PIECE = 1 << 16  # bytes


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
    """What a file says about its tokens.  `ids` has the last id of each piece; absent ids and flags are None.
    `swallows_blanks`: special tokens swallow the blanks behind them."""

    model: str
    pieces: list[bytes]
    types: np.ndarray  # uint8[vocab], of PieceType
    ids: dict[bytes, int]
    bos_id: int | None
    eos_id: int | None
    eog_ids: frozenset[int]
    add_bos: bool | None
    add_eos: bool | None
    add_space_prefix: bool | None
    swallows_blanks: bool


def read_vocabulary(file: GgufFile) -> Vocabulary:
    """FormatError if the vocabulary is missing or malformed, UnsupportedError if it is of another model than MODELS."""
    model = file.get("tokenizer.ggml.model", str)
    if model not in MODELS:
        raise UnsupportedError(f"tokenizer model {model!r}; there are {', '.join(MODELS)}")
    pieces = file.strings("tokenizer.ggml.tokens")
    if not pieces:
        raise FormatError("tokenizer.ggml.tokens is empty")
    if (longest := max(map(len, pieces))) > _MAX_PIECE:
        raise FormatError(f"tokenizer.ggml.tokens has a token of {longest} bytes, more than {_MAX_PIECE}")
    ids = dict(zip(pieces, range(len(pieces)), strict=True))
    types = _types(file, len(pieces))
    bos_id, eos_id = (_special_id(file, name, len(pieces), model) for name in ("bos", "eos"))
    named = [_special_id(file, name, len(pieces), None) for name in ("eot", "eom")]
    eog_ids = _end_of_generation(ids, types) | {i for i in (eos_id, *named) if i is not None}
    name = file.get("general.name", str, "").lower()
    return Vocabulary(
        model=model,
        pieces=pieces,
        types=types,
        ids=ids,
        bos_id=bos_id,
        eos_id=eos_id,
        eog_ids=frozenset(eog_ids),
        add_bos=file.get("tokenizer.ggml.add_bos_token", bool, None),
        add_eos=file.get("tokenizer.ggml.add_eos_token", bool, None),
        add_space_prefix=file.get("tokenizer.ggml.add_space_prefix", bool, None),
        swallows_blanks="phi-3" in name or "phi3" in name,  # no key says so, and no other vocabulary does it
    )


def _types(file: GgufFile, count: int) -> np.ndarray:
    types = file.array("tokenizer.ggml.token_type", int, None)
    if types is None:
        return np.full(count, PieceType.NORMAL, np.uint8)
    if len(types) != count:
        raise FormatError(f"tokenizer.ggml.token_type has {len(types)} values for {count} tokens")
    known = (types >= min(PieceType)) & (types <= max(PieceType))
    return np.where(known, types, PieceType.NORMAL).astype(np.uint8)


def _special_id(file: GgufFile, name: str, count: int, model: str | None) -> int | None:
    """The id of the key, or what the model means where it is missing; one outside the vocabulary is ignored."""
    default = {"bos": 1, "eos": 2}[name] if model == "llama" else None
    key = f"tokenizer.ggml.{name}_token_id"
    found: int | None = file.get(key, int, None)
    if found is not None and not 0 <= found < count:
        warnings.warn(f"{key} is {found}, but the tokens are 0..{count - 1}: ignored", stacklevel=2)
        found = None
    if found is None and default is not None and default < count:
        return default
    return found


def _end_of_generation(ids: dict[bytes, int], types: np.ndarray) -> set[int]:
    """Ids of pieces that are known to end a turn.

    They and the fill-in-the-middle pieces become control tokens in `types`: many files get that wrong."""
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
