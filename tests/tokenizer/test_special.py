"""Cutting at special tokens: which, in what order, and never in what a user types."""

from collections.abc import Callable

from edgeinfer.tokenizer import Tokenizer
from edgeinfer.tokenizer.special import merged

Make = Callable[..., Tokenizer]
CONTROL, USER_DEFINED = 3, 4
SPECIAL = [("<|a|>", CONTROL), ("<|a|><|a|>", CONTROL), ("[u]", USER_DEFINED)]  # ids 256, 257, 258


def test_control_tokens_only_if_parsed_user_defined_always(bpe: Make) -> None:
    tokenizer = bpe(special=SPECIAL)
    assert tokenizer.encode("x<|a|>[u]", parse_special=True) == [120, 256, 258]
    assert tokenizer.encode("x<|a|>[u]") == [120, *b"<|a|>", 258]


def test_longest_first_wherever_it_is(bpe: Make) -> None:
    assert bpe(special=SPECIAL).encode("<|a|><|a|><|a|>", parse_special=True) == [257, 256]


def test_longest_wins_over_an_earlier_start(bpe: Make) -> None:
    tokenizer = bpe(special=[("ab", USER_DEFINED), ("bcd", USER_DEFINED)])
    assert tokenizer.encode("abcd") == [97, 257]


def test_what_a_user_types_in_a_segment_stays_text(bpe: Make) -> None:
    tokenizer = bpe(special=SPECIAL)
    ids = tokenizer.encode_segments([("<|a|>", True), ("<|a|>[u]", False), ("<|a|>", True)])
    assert ids == [256, *b"<|a|>", 258, 256]


def test_no_control_token_across_a_border_of_segments(bpe: Make) -> None:
    tokenizer = bpe(special=SPECIAL)
    assert tokenizer.encode_segments([("<|", True), ("a|>", False)]) == [*b"<|a|>"]
    assert tokenizer.encode_segments([("<|", True), ("a|>", True)]) == [256]
    assert tokenizer.encode_segments([("<|", True), ("", False), ("a|>", True)]) == [256]


def test_neighbouring_segments_merge_like_one_text(bpe: Make) -> None:
    tokenizer = bpe(["a b", "Ġ ab"], special=SPECIAL)
    assert tokenizer.encode_segments([("<|a|> ", True), ("a", False), ("b", True)]) == [258, 257]


def test_characters_may_be_cut_by_segments(bpe: Make) -> None:
    assert bpe().encode_segments([(b"\xc3", True), (b"\xa9", False)]) == [0xC3, 0xA9]


def test_spans_of_segments() -> None:
    assert merged([(b"ab", True), (b"c", True), (b"d", False), (b"e", True)]) == (b"abcde", [(0, 3), (4, 5)])
    assert merged([]) == (b"", [])


def test_tokens_that_swallow_the_blanks_behind_them(spm: Make) -> None:
    pieces, special = ["▁a", "▁", "a"], [("<|end|>", CONTROL)]
    other = spm(pieces, special, add_bos_token=False)
    assert other.encode("<|end|> \na", parse_special=True) == [262, 260, 260, 3 + 10, 261]
    phi = spm(pieces, special, add_bos_token=False, name="Phi-3 mini")
    assert phi.encode("<|end|> \na", parse_special=True) == [262, 259]
    assert phi.encode("<s> a", parse_special=True) == [1, 260, 259]
