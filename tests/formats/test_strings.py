"""Many strings in one array, against lists and dicts of them."""

import numpy as np
import pytest

from edgeinfer.formats.strings import GAP, Strings

SOME = [b"a", b"", b"bc", b"a", b"\0", b"x" * 300, b"12345678", b"123456789", b"\xff\0\xff", b""]


def random_strings(count: int) -> list[bytes]:
    random = np.random.default_rng(3)
    return [random.integers(97, 99, random.integers(0, 30)).astype(np.uint8).tobytes() for _ in range(count)]


@pytest.mark.parametrize("strings", [SOME, [], [b""], [b"a\0"], random_strings(500)])
def test_strings_come_back(strings: list[bytes]) -> None:
    made = Strings.of(strings)
    assert list(made) == [made[place] for place in range(len(made))] == strings
    assert made.longest == max(map(len, strings), default=0)
    assert made.joined(7).tobytes() == b"".join(b"\x07" + string for string in strings)
    with pytest.raises(IndexError):
        made[len(strings)]


@pytest.mark.parametrize("strings", [SOME, [], random_strings(5000)])
@pytest.mark.parametrize("every", [3, 100])
def test_find_gives_the_last_place(strings: list[bytes], every: int) -> None:
    """Whether few are asked for or many."""
    places = {string: place for place, string in enumerate(strings)}
    asked = {*strings[::every], *strings[-1:], b"", b"none", b"1234567", b"a" * 40}
    made = Strings.of(strings)
    for _ in range(every):
        assert made.find(asked) == {string: places[string] for string in asked if string in places}
    assert made.find([]) == {}


def test_strings_that_only_differ_in_the_middle() -> None:
    strings = [b"12345678%dabcdefgh" % place for place in range(100, 999)]
    assert Strings.of(strings).find(strings[:100]) == {string: place for place, string in enumerate(strings[:100])}


def test_what_is_between_them_makes_no_difference() -> None:
    strings = [b"a", b"bc", b"", b"def"]
    strings += [b"%d" % number for number in range(100)]
    raw = b"".join(bytes([place]) * GAP + string for place, string in enumerate(strings, 7))
    fields = np.cumsum([0, *(GAP + len(string) for string in strings)])
    made = Strings(np.frombuffer(raw, np.uint8), fields)
    assert list(made) == strings and made.find([b"bc", b"", b"d"]) == {b"bc": 1, b"": 2}
