"""The 256 printable characters that stand for bytes in the pieces of byte-level vocabularies.

Source: bytes_to_unicode in https://github.com/openai/gpt-2/blob/master/src/encoder.py."""

_PRINTABLE = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]

BYTES = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + rank): byte for rank, byte in enumerate(_OTHERS)}
CHARACTERS = {byte: character for character, byte in BYTES.items()}


def from_alphabet(piece: str) -> bytes:
    """The bytes that `piece` stands for; characters outside the alphabet stand for themselves."""
    try:
        return bytes(map(BYTES.__getitem__, piece))
    except KeyError:
        return b"".join(bytes([BYTES[c]]) if c in BYTES else c.encode("utf-8", "surrogateescape") for c in piece)
