"""The 256 printable characters that stand for bytes in the pieces of byte-level vocabularies.

Source: bytes_to_unicode in https://github.com/openai/gpt-2/blob/master/src/encoder.py."""

import numpy as np

from edgeinfer.tokenizer.texts import At, Plain

_PRINTABLE = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]

BYTES = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + rank): byte for rank, byte in enumerate(_OTHERS)}
CHARACTERS = {byte: character for character, byte in BYTES.items()}
_LEADS = (0xC2, 0xC5)  # the first bytes of characters of two, from the first to the last
_OUTSIDE = -1
_OF_TWO = np.array([BYTES.get(chr(code), _OUTSIDE) for code in range(0x80, 0x180)], np.int16)  # all with these leads


class ByteAlphabet:
    """Characters outside the alphabet stand for themselves."""

    def read(self, piece: bytes) -> bytes:
        text = piece.decode("utf-8", "surrogateescape")
        try:
            return bytes(map(BYTES.__getitem__, text))
        except KeyError:
            return b"".join(bytes([BYTES[c]]) if c in BYTES else c.encode("utf-8", "surrogateescape") for c in text)

    def at(self, data: np.ndarray, places: np.ndarray, ends: np.ndarray) -> At:
        found, sizes = Plain().at(data, places, ends)
        pairs = np.flatnonzero((found >= _LEADS[0]) & (found <= _LEADS[1]) & (places + 2 <= ends))
        seconds = data[places[pairs] + 1]
        pairs, seconds = pairs[seconds >> 6 == 2], seconds[seconds >> 6 == 2]
        bytes_meant = _OF_TWO[(found[pairs].astype(np.intp) - _LEADS[0] << 6) + seconds - 0x80]
        inside = bytes_meant != _OUTSIDE
        found[pairs[inside]], sizes[pairs[inside]] = bytes_meant[inside], 2
        return found, sizes
