"""PLaMo 2's vocabularies: the cut with the highest score, and bytes for what is in no piece.

What is wanted where scores decide was compared with llama.cpp, on 300 random texts too."""

from collections.abc import Callable, Mapping

import pytest

from edgeinfer.errors import FormatError
from edgeinfer.tokenizer import Tokenizer

Make = Callable[..., Tokenizer]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
FIRST = 3 + len(BYTES)  # id of the first piece


@pytest.fixture
def plamo2(write: Callable[..., object]) -> Make:
    """0 <unk>, 1 <bos>, 2 <eos>, 256 bytes, then pieces by their scores."""

    def make(pieces: Mapping[str, float], **keys: object) -> Tokenizer:
        tokens = ["<unk>", "<bos>", "<eos>", *BYTES, *pieces]
        types = [2, 3, 3] + [6] * len(BYTES) + [1] * len(pieces)
        scores = [0.0] * FIRST + list(pieces.values())
        file = write(model="plamo2", tokens=tokens, token_type=types, scores=scores, **keys)
        return Tokenizer.from_gguf(file)  # type: ignore[arg-type]

    return make


def test_the_highest_sum_wins(plamo2: Make) -> None:
    tokenizer = plamo2({"a": -3.0, "b": -3.0, "c": -3.0, "ab": -5.0, "bc": -1.0, "いろ": -2.0})
    assert tokenizer.encode("abc") == [FIRST, FIRST + 4]  # -4, and ab c has -8
    assert tokenizer.encode("ab") == [FIRST + 3]
    assert tokenizer.encode("いろab") == [FIRST + 5, FIRST + 3]


def test_of_equal_cuts_the_first_piece_is_the_longest(plamo2: Make) -> None:
    assert plamo2({"a": -2.0, "ab": -2.0, "bc": -2.0, "c": -2.0}).encode("abc") == [FIRST + 1, FIRST + 3]


def test_characters_in_no_piece_are_bytes(plamo2: Make) -> None:
    tokenizer = plamo2({"a": -1.0, "日本": -999.0})
    assert tokenizer.encode("aé") == [FIRST, 3 + 0xC3, 3 + 0xA9]
    assert tokenizer.encode("日本") == [FIRST + 1]
    assert tokenizer.encode("本") == [3 + byte for byte in "本".encode()]
    raw = bytes(range(256))
    assert tokenizer.decode(tokenizer.encode(raw, exact=True)) == raw
    assert tokenizer.encode(b"\xff") == tokenizer.encode("\ufffd") != tokenizer.encode(b"\xff", exact=True)


def test_a_byte_order_mark_is_left_out_at_the_start(plamo2: Make) -> None:
    assert plamo2({"a": -1.0}).encode("\ufeffa\ufeff") == [FIRST, *(3 + byte for byte in b"\xef\xbb\xbf")]


def test_control_tokens_are_no_text(plamo2: Make) -> None:
    tokenizer = plamo2({"a": -1.0})
    assert tokenizer.encode("<eos>") == [3 + byte for byte in b"<eos>"]
    assert tokenizer.encode("<eos>a", parse_special=True) == [2, FIRST]


def test_a_missing_byte_is_named(write: Callable[..., object]) -> None:
    with pytest.raises(FormatError, match="has no <0x07>"):
        Tokenizer.from_gguf(write(model="plamo2", tokens=[piece for piece in BYTES if piece != "<0x07>"]))  # type: ignore[arg-type]
