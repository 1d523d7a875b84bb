"""Token healing over small vocabularies whose every choice can be told."""

import numpy as np
import pytest

from edgeinfer.healing import Respelling, back_up


class Tokens:
    """Texts of the given tokens; those like <x> are control tokens."""

    def __init__(self, *tokens: str | bytes) -> None:
        self.tokens = [token.encode() if isinstance(token, str) else token for token in tokens]

    def __getitem__(self, id: int) -> bytes:
        token = self.tokens[id]
        return b"" if token[:1] == b"<" and token[-1:] == b">" and token[1:-1] else token

    def beginning_with(self, text: bytes) -> np.ndarray:
        return np.array([id for id in range(len(self.tokens)) if self[id].startswith(text)], np.int64)

    def ids(self, *tokens: str) -> list[int]:
        return [self.tokens.index(token.encode()) for token in tokens]

    def allowed(self, respelling: Respelling) -> set[str] | None:
        ids = respelling.allowed()
        return None if ids is None else {self.tokens[id].decode("latin-1") for id in ids}

    def dropped(self, *prompt: str) -> list[str]:
        ids = self.ids(*prompt)
        return list(prompt[back_up(self, ids) :])


def bytes_and(*tokens: str) -> Tokens:
    """A vocabulary with a token of each byte, as byte fallback has it."""
    return Tokens("<s>", *(bytes([byte]) for byte in range(256)), *tokens)


HEAL = bytes_and("://", ":/", ":8")  # as in the kit's fixture heal.gguf
WEEK = bytes_and(" Wed", "nes", "nesday", " Wednesday", " Wednesdays", " Tuesday")


def test_the_last_token_goes_where_a_longer_one_could_stand() -> None:
    assert HEAL.dropped("<s>", "a", ":") == [":"]
    assert HEAL.allowed(Respelling(HEAL, HEAL.ids(":"))) == {":", ":/", "://", ":8"}


def test_nothing_goes_where_none_could() -> None:
    assert HEAL.dropped("<s>", "a", "w") == []
    assert Respelling(HEAL, []).allowed() is None


def test_an_equal_token_of_another_id_is_no_longer_one() -> None:
    assert back_up(Tokens("<s>", "a", b"b", "b"), [0, 1, 2]) == 3


def test_several_tokens_go_that_one_could_cover() -> None:
    assert WEEK.dropped("<s>", " Tuesday", ",", " Wed", "nes") == [" Wed", "nes"]
    respelling = Respelling(WEEK, WEEK.ids(" Wed", "nes"))
    assert WEEK.allowed(respelling) == {" Wed", " Wednesday", " Wednesdays"}


def test_a_covering_token_counts_even_when_none_covers_the_last_alone() -> None:
    assert Tokens("<s>", "x", "ab", "cd", "abcde").dropped("x", "ab", "cd") == ["ab", "cd"]


@pytest.mark.parametrize("prompt", [["nes"], ["<s>", "nes"], ["<s>"], []])
def test_the_first_token_and_control_tokens_stay(prompt: list[str]) -> None:
    assert WEEK.dropped(*prompt) == prompt[1:]


def test_backing_up_ends_at_a_control_token() -> None:
    tokens = Tokens("<s>", "<x>", "a", "b", "a<x>bc", "bc")
    assert tokens.dropped("<s>", "a", "<x>", "b") == ["b"]
    assert tokens.dropped("<s>", "a", "<x>") == []


def test_control_tokens_are_never_allowed_nor_a_reason_to_back_up() -> None:
    tokens = Tokens("<s>", "<|", "x", "<|end|>")
    assert tokens.dropped("<s>", "x", "<|") == []
    assert tokens.allowed(Respelling(tokens, tokens.ids("<|"))) == {"<|"}


def test_a_character_is_not_the_unit() -> None:
    tokens = bytes_and("é", "éa", " é")
    half = tokens.tokens.index("é".encode()[:1])
    assert back_up(tokens, [0, *tokens.ids("x"), half]) == 2
    allowed = Respelling(tokens, [half]).allowed()
    assert allowed is not None and {tokens.tokens[id] for id in allowed} == {b"\xc3", "é".encode(), "éa".encode()}


def test_ids_rise_and_equal_tokens_are_all_there() -> None:
    tokens = Tokens("<s>", "abc", "b", "ab", "a", "ab", "abd", "a")
    allowed = Respelling(tokens, [7, 2]).allowed()
    assert allowed is not None and allowed.dtype == np.int64 and allowed.tolist() == [1, 3, 5, 6, 7]


def test_each_dropped_token_comes_back_unless_one_goes_to_the_end() -> None:
    respelling = Respelling(WEEK, WEEK.ids(" ", "W", "e", "d", "nes"))
    for token, then in (
        (" ", {"W"}),
        ("W", {"e"}),
        ("e", {"d"}),
        ("d", {"nes", "nesday"}),
        ("nes", None),
    ):
        assert respelling.advance(WEEK.ids(token)[0]) == b""
        assert WEEK.allowed(respelling) == then, token


@pytest.mark.parametrize(("token", "beyond"), [(" Wednesday", b"day"), (" Wednesdays", b"days")])
def test_what_goes_beyond_the_end(token: str, beyond: bytes) -> None:
    respelling = Respelling(WEEK, WEEK.ids(" Wed", "nes"))
    assert respelling.advance(WEEK.ids(token)[0]) == beyond
    assert respelling.allowed() is None


def test_random_walks_always_spell_the_prompt() -> None:
    random = np.random.default_rng(7)
    walks = 0
    for _ in range(60):
        texts = {bytes(random.choice([97, 98, 99], random.integers(1, 6)).tolist()) for _ in range(25)}
        tokens = Tokens("<s>", *sorted(texts))
        ids = [0, *random.integers(1, len(tokens.tokens), 6).tolist()]
        kept = back_up(tokens, ids)
        dropped = b"".join(tokens.tokens[id] for id in ids[kept:])
        for _ in range(20):
            walk, text, beyond, steps = Respelling(tokens, ids[kept:]), b"", b"", 0
            while (allowed := walk.allowed()) is not None:
                assert ids[kept + steps] in allowed and beyond == b""
                id = int(random.choice(allowed))
                beyond = walk.advance(id)
                text += tokens.tokens[id]
                steps += 1
            walks += bool(dropped)
            assert text == dropped + beyond
    assert walks > 100
