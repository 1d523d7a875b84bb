"""Models of the parts of a text, then of all pieces: both give the same ids."""

from collections.abc import Callable, Sequence

import pytest

from edgeinfer.tokenizer import Tokenizer
from edgeinfer.tokenizer.parts import ForText

MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld", "o r"]
PIECES = ["hello", "hell", "▁world", "▁wor", "he", "ll", "ld", "▁w", "or", "or", "", "▁", "h", "e", "l", "o", "w", "r"]
TEXTS = ["hello world", "  hell", "hhelloo wworldd", "olleh é wor", "world", "", "a\0hello", "héllo\n\nworld"]


def test_parts_until_they_are_as_many_as_the_pieces() -> None:
    seen: list[set[str]] = []
    models = ForText(2, 10, lambda parts: seen.append(parts) or "some", lambda: "all")
    assert models.model(["abc", "ab", "abc"]) == "some"  # words of 3 * 2 and 2 * 2 places
    assert seen == [{"a", "b", "c", "ab", "bc"}]
    assert models.model(["a"]) == "all"
    assert models.model([]) == "all"
    assert len(seen) == 1


def both(make: Callable[[], Tokenizer], texts: Sequence[str]) -> None:
    """The same ids by the parts of each text alone, and by all pieces."""
    whole = make()
    whole.encode("hello" * 1000)
    assert whole._model._mergers._whole is not None  # type: ignore[attr-defined]
    for text in texts:
        assert make().encode(text) == whole.encode(text), text


@pytest.mark.parametrize("pre", ["gpt-2", "llama3"])
def test_byte_level(bpe: Callable[..., Tokenizer], pre: str) -> None:
    both(lambda: bpe(MERGES, pre=pre), TEXTS)
    assert len(bpe(MERGES).encode("hello world")) == 2


def test_sentencepiece(spm: Callable[..., Tokenizer]) -> None:
    both(lambda: spm(PIECES), TEXTS)
    assert len(spm(PIECES, add_space_prefix=False, add_bos_token=False).encode("hello world")) == 2
