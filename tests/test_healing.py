"""Token healing over small vocabularies whose every choice can be told."""

import numpy as np
import pytest

from edgeinfer.healing import Prefix, back_up


class Tokens:
    """A tokenizer of the given tokens; the first `controls` of them are control tokens."""

    def __init__(self, *tokens: str | bytes, controls: int = 1) -> None:
        self.tokens = [token.encode() if isinstance(token, str) else token for token in tokens]
        self.n_vocab = len(self.tokens)
        self.controls = controls

    def token_bytes(self, id: int) -> bytes:
        return self.tokens[id]

    def is_control(self, id: int) -> bool:
        return id < self.controls

    def ids(self, *tokens: str) -> list[int]:
        return [self.tokens.index(token.encode()) for token in tokens]

    def names(self, ids: np.ndarray | None) -> set[str] | None:
        return None if ids is None else {self.tokens[id].decode("latin-1") for id in ids}


def bytes_and(*tokens: str) -> Tokens:
    """A vocabulary with a token of each byte, as byte fallback has it."""
    return Tokens("<s>", *(bytes([byte]) for byte in range(256)), *tokens)


HEAL = bytes_and("a", "/", ":", ":/", "://", ":8", "w", "8")  # as in the kit's fixture heal.gguf
WEEK = bytes_and(" Wed", "nes", "nesday", " Wednesday", " Wednesdays", ",", " Tuesday")


def test_the_last_token_goes_where_a_longer_one_could_stand() -> None:
    assert back_up(HEAL, HEAL.ids("<s>", "a", ":")) == (HEAL.ids("<s>", "a"), b":")
    assert HEAL.names(Prefix(HEAL, b":").allowed()) == {":", ":/", "://", ":8"}


def test_nothing_goes_where_none_could() -> None:
    ids = HEAL.ids("<s>", "a", "w")
    assert back_up(HEAL, ids) == (ids, b"")
    assert Prefix(HEAL, b"").allowed() is None


def test_an_equal_token_of_another_id_is_no_longer_one() -> None:
    tokens = Tokens("<s>", "a", b"b", "b")
    assert back_up(tokens, [0, 1, 2]) == ([0, 1, 2], b"")


def test_several_tokens_go_that_one_could_cover() -> None:
    kept, prefix = back_up(WEEK, WEEK.ids("<s>", " Tuesday", ",", " Wed", "nes"))
    assert (kept, prefix) == (WEEK.ids("<s>", " Tuesday", ","), b" Wednes")
    assert WEEK.names(Prefix(WEEK, prefix).allowed()) == {" ", " Wed", " Wednesday", " Wednesdays"}


def test_a_covering_token_counts_even_when_none_covers_the_last_alone() -> None:
    tokens = Tokens("<s>", "x", "ab", "cd", "abcde")
    assert back_up(tokens, tokens.ids("x", "ab", "cd")) == (tokens.ids("x"), b"abcd")


@pytest.mark.parametrize("prompt", [["nes"], ["<s>", "nes"], ["<s>"], []])
def test_the_first_token_and_control_tokens_stay(prompt: list[str]) -> None:
    ids = WEEK.ids(*prompt)
    kept, prefix = back_up(WEEK, ids)
    assert kept == ids[:1] and kept + WEEK.ids(*([prefix.decode()] if prefix else [])) == ids


def test_backing_up_ends_at_a_control_token() -> None:
    tokens = Tokens("<s>", "<x>", "a", "b", "a<x>bc", "bc", controls=2)
    assert back_up(tokens, [0, 2, 1, 3]) == ([0, 2, 1], b"b")
    assert back_up(tokens, [0, 2, 1]) == ([0, 2, 1], b"")


def test_control_tokens_are_never_allowed_nor_a_reason_to_back_up() -> None:
    tokens = Tokens("<s>", "<|", "x", controls=1)
    tokens.tokens.append(b"<|end|>")
    tokens.n_vocab, tokens.is_control = 4, lambda id: id in (0, 3)  # type: ignore[method-assign]
    assert back_up(tokens, [0, 2, 1]) == ([0, 2, 1], b"")
    assert tokens.names(Prefix(tokens, b"<|").allowed()) == {"<|"}


def test_a_character_is_not_the_unit() -> None:
    tokens = bytes_and("é", "éa", " é")
    half = "é".encode()[:1]
    assert back_up(tokens, [0, *tokens.ids("x"), tokens.tokens.index(half)]) == ([0, *tokens.ids("x")], half)
    allowed = Prefix(tokens, half).allowed()
    assert allowed is not None and {tokens.tokens[id] for id in allowed} == {half, "é".encode(), "éa".encode()}


def test_ids_rise_and_equal_tokens_are_all_there() -> None:
    tokens = Tokens("<s>", "abc", "b", "a", "ab", "a")
    allowed = Prefix(tokens, b"ab").allowed()
    assert allowed is not None and allowed.dtype == np.int64 and allowed.tolist() == [1, 3, 4, 5]


def test_a_beginning_is_allowed_only_where_tokens_can_go_on() -> None:
    tokens = Tokens("<s>", "ab", "abcd", "a", "cx", "bcde")
    # after ab would come c or cd: there is cx only, which strays; after a comes bcde
    prefix = Prefix(tokens, b"abcd")
    assert tokens.names(prefix.allowed()) == {"abcd", "a"}
    prefix.advance(3)
    assert tokens.names(prefix.allowed()) == {"bcde"}
    prefix.advance(5)
    assert prefix.allowed() is None


def test_the_prefix_may_be_spelt_in_many_steps() -> None:
    prefix = Prefix(WEEK, b" Wednes")
    for token, then in (
        (" ", {"W"}),
        ("W", {"e"}),
        ("e", {"d"}),
        ("d", {"n", "nes", "nesday"}),
        ("n", {"e"}),
        ("e", {"s"}),
        ("s", None),
    ):
        prefix.advance(WEEK.ids(token)[0])
        assert WEEK.names(prefix.allowed()) == then, token


def test_the_index_is_made_once_for_each_tokenizer() -> None:
    tokens = bytes_and("ab", "abc")
    calls = 0
    token_bytes = tokens.token_bytes

    def counting(id: int) -> bytes:
        nonlocal calls
        calls += 1
        return token_bytes(id)

    tokens.token_bytes = counting  # type: ignore[method-assign]
    back_up(tokens, tokens.ids("x", "ab"))
    assert calls >= tokens.n_vocab - 1
    calls = 0
    assert back_up(tokens, tokens.ids("x", "ab")) == (tokens.ids("x"), b"ab")
    assert calls < 20


def test_random_walks_always_spell_the_prefix() -> None:
    random = np.random.default_rng(7)
    for _ in range(60):
        texts = {bytes(random.choice([97, 98, 99], random.integers(1, 6)).tolist()) for _ in range(25)}
        tokens = Tokens("<s>", *sorted(texts))
        ids = [0, *random.integers(1, tokens.n_vocab, 6).tolist()]
        kept, prefix = back_up(tokens, ids)
        whole = b"".join(map(tokens.token_bytes, ids))
        assert b"".join(map(tokens.token_bytes, kept)) + prefix == whole
        for _ in range(20):
            walk, text = Prefix(tokens, prefix), b""
            while (allowed := walk.allowed()) is not None:
                fits = [
                    id
                    for id in range(1, tokens.n_vocab)
                    if (text + tokens.token_bytes(id)).startswith(prefix)
                    or prefix.startswith(text + tokens.token_bytes(id))
                ]
                assert len(allowed) and set(allowed.tolist()) <= set(fits)
                id = int(random.choice(allowed))
                walk.advance(id)
                text += tokens.token_bytes(id)
            assert text.startswith(prefix)
