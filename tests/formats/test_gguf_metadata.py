"""Key-value pairs: what they decode to, and every way they can be wrong."""

import struct

import numpy as np
import pytest

from edgeinfer.errors import FormatError, RequestError
from edgeinfer.formats import gguf, gguf_metadata


@pytest.mark.parametrize(
    "kind, value",
    [
        ("u8", 200),
        ("i8", -100),
        ("u16", 60000),
        ("i16", -30000),
        ("u32", 2**32 - 1),
        ("i32", -(2**31)),
        ("u64", 2**64 - 1),
        ("i64", -(2**63)),
        ("f32", 0.5),
        ("f64", 0.1),
        ("str", "naïve"),
    ],
)
def test_single_values_are_python_values(opened, kind, value):
    found = opened(pairs=[("k", kind, value)]).metadata["k"]
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("byte", [0, 1, 7])
def test_every_bool_byte_but_zero_is_true(opened, byte):
    file = opened(pairs=[("k", "bool", byte), ("a", "[bool]", [byte, 0])])
    assert file.metadata["k"] is bool(byte)
    assert file.array("a", bool).tolist() == [bool(byte), False]


@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"])
def test_arrays_of_numbers_are_views_of_the_file(opened, kind):
    name = f"{kind[0]}{8 * int(kind[1])}"
    values = opened(pairs=[("odd", "u8", 1), ("k", f"[{name}]", [1, 2, 3])]).metadata["k"]
    assert values.dtype == np.dtype(f"<{kind}") and values.tolist() == [1, 2, 3]
    assert not values.flags.writeable and not values.flags.owndata


def test_string_arrays_and_empty_arrays(opened):
    file = opened(pairs=[("s", "[str]", ["a", "", b"\xff"]), ("none", "[str]", []), ("zero", "[f32]", [])])
    assert file.metadata["s"] == ["a", "", "\udcff"]
    assert file.metadata["none"] == [] and file.metadata["zero"].shape == (0,)


def test_mapping_keeps_the_order_of_the_file(opened):
    metadata = opened(pairs=[("b", "u8", 1), ("a", "u8", 2)]).metadata
    assert list(metadata) == ["b", "a"] and len(metadata) == 2 and "c" not in metadata
    with pytest.raises(KeyError):
        metadata["c"]


def test_keys_need_not_be_utf8(opened):
    assert list(opened(pairs=[(b"k\xff", "u8", 1)]).metadata) == ["k\udcff"]


def test_nothing_is_decoded_after_close(opened):
    file = opened(pairs=[("k", "u8", 1)])
    file.close()
    with pytest.raises(RequestError, match="closed"):
        file.metadata["k"]


def test_empty_key(refusal):
    assert refusal(FormatError, pairs=[("a", "u8", 1), ("", "u8", 1)]) == "key 1 is empty"


def test_duplicate_key(refusal):
    assert "key 'a' occurs twice" in refusal(FormatError, pairs=[("a", "u8", 1), ("a", "u8", 2)])


@pytest.mark.parametrize("count", [2**16 + 1, 2**63, 2**64 - 1])
def test_huge_count_of_pairs(refusal, count):
    assert f"{count} key-value pairs, more than" in refusal(FormatError, n_pairs=count)


def test_count_of_pairs_too_high(refusal):
    assert "truncated: the file ends inside" in refusal(FormatError, pairs=[("a", "u8", 1)], n_pairs=3, alignment=1)


@pytest.mark.parametrize("length", [2**16, 2**40, 2**64 - 1])
def test_huge_key(refusal, build_gguf, length):
    raw = build_gguf(pairs=[("key", "u8", 1)]).replace(
        struct.pack("<Q", 3) + b"key", struct.pack("<Q", length) + b"key"
    )
    assert f"key 0 (at byte 24) is {length} bytes long" in refusal(FormatError, raw)


@pytest.mark.parametrize("length", [1000, 2**63, 2**64 - 1])
def test_string_value_beyond_the_end(refusal, length):
    text = refusal(FormatError, pairs=[("key", struct.pack("<IQ", 8, length), None)])
    assert text.startswith("truncated: the file ends inside the value of 'key'")


@pytest.mark.parametrize("kind", [13, 77, 2**32 - 1])
def test_unknown_value_type(refusal, kind):
    assert f"the value of 'key' has the unknown type {kind}" in refusal(
        FormatError, pairs=[("key", struct.pack("<I", kind), None)]
    )


@pytest.mark.parametrize("kind", [13, 77])
def test_unknown_array_type(refusal, kind):
    text = refusal(FormatError, pairs=[("key", struct.pack("<IIQ", 9, kind, 1), None)])
    assert f"the value of 'key' has the unknown type {kind}" in text


def test_nested_array(refusal):
    text = refusal(FormatError, pairs=[("key", struct.pack("<IIQ", 9, 9, 1) * 2000, None)])
    assert "the value of 'key' is an array of arrays" in text


@pytest.mark.parametrize("count", [2**40, 2**61, 2**64 - 1])
@pytest.mark.parametrize("kind", [0, 7, 8, 12])
def test_huge_array(refusal, kind, count):
    text = refusal(FormatError, pairs=[("key", struct.pack("<IIQ", 9, kind, count), None)])
    assert "truncated" in text and "the value of 'key'" in text


def test_string_array_beyond_the_end(refusal):
    strings = struct.pack("<IIQ", 9, 8, 2) + struct.pack("<Q", 1) + b"a" + struct.pack("<Q", 1000)
    assert "truncated: the file ends inside the value of 'key'" in refusal(FormatError, pairs=[("key", strings, None)])


def test_too_many_strings(refusal, monkeypatch):
    monkeypatch.setattr(gguf_metadata, "_MAX_STRINGS", 5)
    text = refusal(FormatError, pairs=[("a", "[str]", ["x"] * 3), ("b", "[str]", ["x"] * 3)])
    assert text == "the value of 'b' has 3 strings; a file may hold 5 in all"


def test_names_in_errors_are_escaped_and_cut(refusal):
    text = refusal(FormatError, pairs=[("\n\x1b" + "k" * 5000, struct.pack("<I", 77), None)])
    assert r"'\n\x1bkkk" in text and len(text) < 200


def test_numbers_of_unaligned_arrays_can_be_computed_with(opened):
    values = opened(pairs=[("x", "str", "abc"), ("k", "[f32]", [0.5, 1.5])]).array("k", float)
    assert np.sum(values) == 2


def test_strings(opened):
    file = opened(pairs=[("s", "[str]", ["a", "", b"\xff" * 300, "b"]), ("none", "[str]", [])])
    assert list(file.strings("s")) == [b"a", b"", b"\xff" * 300, b"b"]
    assert list(file.strings("none")) == [] and file.metadata["none"] == []


def test_counts(opened):
    file = opened(pairs=[("s", "[str]", ["a", ""]), ("n", "[f32]", []), ("one", "u8", 1)])
    assert (file.count("s", str), file.count("n", float), file.count("gone", int, 5)) == (2, 0, 5)
    with pytest.raises(FormatError, match="'one' is u8, an array of int wanted"):
        file.count("one", int)
    with pytest.raises(FormatError, match="'n' is an array of 0 f32, an array of str wanted"):
        file.count("n", str)
    with pytest.raises(FormatError, match="'gone' is missing"):
        file.count("gone", str)


@pytest.mark.parametrize(
    ("kind", "value", "given", "found"),
    [
        ("u32", 7, -5, -5),
        ("f32", 0.5, 0.25, 0.25),
        ("f32", 0.5, 2, 2.0),
        ("bool", 1, False, False),
        ("str", "text", "other", "other"),
        ("[i32]", [1, 2], 3, 3),
    ],
)
def test_overrides(write, kind, value, given, found):
    with gguf.open(write(pairs=[("k", kind, value)]), override={"k": given}) as file:
        assert file.metadata["k"] == found and type(file.metadata["k"]) is type(found)
        assert file.get("k", type(found)) == found
        if type(found) is not str:
            assert file.array("k", type(found)).tolist() == [found]


def test_overrides_of_keys_that_are_not_there(write):
    with gguf.open(write(), override={"a": 1, "b": "x"}) as file:
        assert dict(file.metadata) == {"a": 1, "b": "x"}
        with pytest.raises(FormatError, match="'b' is str, int wanted"):
            file.get("b", int)


@pytest.mark.parametrize(
    ("key", "given", "message"),
    [
        ("int", 0.5, "override of 'int' is '0.5', int wanted"),
        ("int", True, "override of 'int' is 'True', int wanted"),
        ("int", "7", "override of 'int' is '7', int wanted"),
        ("strs", "x", "override of 'strs' is 'x', an array of 1 str stands there"),
        ("new", None, "override of 'new' is 'None', int, float, bool or str wanted"),
        ("new", 2**64, "override of 'new' is beyond 64 bits"),
        ("general.alignment", 64, "override of 'general.alignment', which tells where"),
        ("split.count", 1, "override of 'split.count', which tells where"),
    ],
)
def test_overrides_that_do_not_fit(write, key, given, message):
    path = write(pairs=[("int", "u32", 7), ("strs", "[str]", ["a"])])
    with pytest.raises(RequestError) as caught:
        gguf.open(path, override={key: given})
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize("given", [5, "k=1", [("k", 1)], {5: 1}, {b"k": 1}])
def test_overrides_that_are_none(write, given):
    with pytest.raises(RequestError, match="override must map keys, which are texts, to values"):
        gguf.open(write(), override=given)


def test_strings_that_hold_zeros(opened):
    strings = [b"a\0", b"", b"\0", b"b"]
    assert list(opened(pairs=[("s", "[str]", strings)]).strings("s")) == strings
