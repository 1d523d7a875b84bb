"""Unigram vocabularies: the best way to cut a text, and rules that are compiled into the file."""

import struct
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from edgeinfer.errors import FormatError
from edgeinfer.tokenizer import Tokenizer

UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 2, 3, 4, 5
Make = Callable[..., Tokenizer]


@pytest.fixture
def unigram(write: Callable[..., object]) -> Make:
    """0 <pad>, 1 </s>, 2 <unk>, then pieces with their scores."""

    def make(pieces: dict[str, float], special: Sequence[tuple[str, int]] = (), **keys: object) -> Tokenizer:
        tokens = ["<pad>", "</s>", "<unk>", *pieces, *(text for text, _ in special)]
        types = [CONTROL, CONTROL, UNKNOWN] + [1] * len(pieces) + [kind for _, kind in special]
        scores = [0.0] * 3 + list(pieces.values()) + [0.0] * len(special)
        return Tokenizer.from_gguf(write(model="t5", tokens=tokens, token_type=types, scores=scores, **keys))  # type: ignore[arg-type]

    return make


ABC = {"▁": -1.0, "a": -3.0, "b": -3.0, "▁a": -2.0, "ab": -2.5, "▁ab": -9.0}


def test_the_highest_sum_of_scores_wins(unigram: Make) -> None:
    assert unigram(ABC).encode("ab") == [3, 7, 1]  # -1 - 2.5, and not -2 - 3 nor -9
    assert unigram(ABC | {"▁ab": -3.0}).encode("ab") == [8, 1]


def test_each_text_has_a_blank_before_it(unigram: Make) -> None:
    assert unigram(ABC).encode("a</s>a", add_special=False, parse_special=True) == [6, 1, 6]
    assert unigram(ABC).decode([6, 6]) == b"a a"
    assert unigram(ABC, add_space_prefix=False).encode("a", add_special=False) == [4]


def test_blanks(unigram: Make) -> None:
    assert unigram(ABC).encode(" a  a", add_special=False) == [3, 6, 3, 6]
    assert unigram(ABC, remove_extra_whitespaces=True).encode("  a   a ", add_special=False) == [6, 6]


def test_what_has_no_piece_is_unknown_as_one(unigram: Make) -> None:
    assert unigram(ABC).encode("axyb", add_special=False) == [6, 2, 5]
    assert unigram(ABC).encode(b"a\xff\xfeb", add_special=False) == [6, 2, 5]
    assert unigram(ABC).decode([6, 2, 5], special=True) == b"a<unk>b"


def test_begin_and_end(unigram: Make) -> None:
    assert unigram(ABC, add_eos_token=False).encode("a") == [6]
    assert unigram(ABC, add_bos_token=True, bos_token_id=0).encode("a") == [0, 6, 1]


def test_user_defined_and_unused_pieces(unigram: Make) -> None:
    tokenizer = unigram(ABC, [("[x]", USER_DEFINED), ("aa", UNUSED)])
    assert tokenizer.encode("a[x]b", add_special=False) == [6, 9, 3, 5]
    assert tokenizer.encode("baa", add_special=False) == [3, 5, 10]


def test_equal_pieces(write: Callable[..., object]) -> None:
    keys = {"tokens": ["<unk>", "▁", "a", "a", ""], "token_type": [2, 1, 1, 1, 1], "scores": [0.0] * 5}
    tokenizer = Tokenizer.from_gguf(write(model="t5", unknown_token_id=0, **keys))  # type: ignore[arg-type]
    assert tokenizer.encode("a", add_special=False) == [1, 3]


def charsmap(units: dict[int, int], strings: bytes) -> list[int]:
    """A compiled map with a double array of 256 units; those that are not used have another place's label."""
    array = (np.arange(256) ^ 1).astype("<u4")
    for place, unit in units.items():
        array[place] = unit
    return list(struct.pack("<I", array.nbytes) + array.tobytes() + strings)


def unit(label: int, offset: int, leaf: bool = False) -> int:
    return offset << 10 | leaf << 8 | label


# The root leads to 0x40 ^ "A"; from there it goes to 1 ^ 2, the value, which is string 0, "b".
UPPER = {0: unit(0, 0x40), 1: unit(0x41, 2, leaf=True), 3: 1 << 31}


def test_characters_are_replaced_by_the_map(unigram: Make) -> None:
    assert unigram(ABC).encode("aA", add_special=False) == [6, 2]
    mapped = unigram(ABC, precompiled_charsmap=charsmap(UPPER, b"b\0"))
    assert mapped.encode("aA", add_special=False) == [3, 7]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([1, 2], "truncated"),
        (charsmap(UPPER, b""), "truncated"),
        (charsmap(UPPER, b"b"), "truncated"),
        (charsmap(UPPER, b"b\0")[:900], "truncated"),
        ([0, 0, 0, 0, 0], "truncated"),
        (charsmap(UPPER | {1: unit(0x41, 1 << 20, leaf=True)}, b"b\0"), "out of its array"),
        (charsmap(UPPER | {3: 1 << 31 | 2}, b"b\0"), "out of its strings"),
    ],
)
def test_malformed_maps(unigram: Make, raw: list[int], message: str) -> None:
    with pytest.raises(FormatError, match=f"precompiled_charsmap .*{message}|precompiled_charsmap is {message}"):
        unigram(ABC, precompiled_charsmap=raw)


def test_scores_must_fit(write: Callable[..., object]) -> None:
    with pytest.raises(FormatError, match="scores has 1 values for 2"):
        Tokenizer.from_gguf(write(model="t5", tokens=["a", "b"], token_type=[1, 1], scores=[0.0]))  # type: ignore[arg-type]
