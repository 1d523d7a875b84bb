"""The alphabet of bytes, held against the three characters everybody knows and the tokenizers library's own."""

from tokenizers import pre_tokenizers

from edgeinfer.tokenizer.byte_alphabet import BYTES, CHARACTERS, ByteAlphabet


def test_known_characters() -> None:
    assert (CHARACTERS[0x20], CHARACTERS[0x0A], CHARACTERS[0x41], CHARACTERS[0]) == ("Ġ", "Ċ", "A", "Ā")


def test_alphabet_is_that_of_the_library() -> None:
    assert set(pre_tokenizers.ByteLevel.alphabet()) == set(BYTES)
    assert all(BYTES[CHARACTERS[byte]] == byte for byte in range(256))


def test_characters_outside_stand_for_themselves() -> None:
    assert ByteAlphabet().read("Ġé▁".encode()) == b" \xe9" + "▁".encode()
