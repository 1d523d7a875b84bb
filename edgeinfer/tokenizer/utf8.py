"""Bytes and text where the UTF-8 may be broken: repairing it, and walking it symbol by symbol."""

from collections.abc import Iterator

from edgeinfer.errors import RequestError

_LENGTHS = (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4)  # bytes of a symbol by the upper half of its first byte
_LOW_BITS = (0x7F, 0x1F, 0x0F, 0x07)  # of a first byte, by the symbol's length - 1


def as_bytes(text: str | bytes) -> bytes:
    """The UTF-8 of `text`; lone surrogates that stand for undecodable bytes (PEP 383) become those bytes again.

    RequestError for what is no text."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise RequestError(f"a text must be str or bytes, not {type(text).__name__}")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def symbols(raw: bytes) -> Iterator[bytes]:
    """`raw` cut by the lengths that first bytes announce, whether or not the bytes that follow keep the promise."""
    position = 0
    while position < len(raw):
        end = position + _LENGTHS[raw[position] >> 4]
        yield raw[position:end]
        position = end


def text_runs(raw: bytes) -> Iterator[str | bytes]:
    """`raw` as a row of texts and broken symbols."""
    try:
        yield raw.decode()
        return
    except UnicodeDecodeError:
        text = ""
    for symbol in symbols(raw):
        try:
            text += symbol.decode()
        except UnicodeDecodeError:
            yield from (text, symbol)
            text = ""
    yield text


def repaired(raw: bytes) -> str:
    """Text of `raw` as llama.cpp reads it: a byte that starts no character is U+FFFD, overlong forms are accepted."""
    out = []
    position = 0
    while position < len(raw):
        length = _LENGTHS[raw[position] >> 4]
        tail = raw[position + 1 : position + length]
        code = raw[position] & _LOW_BITS[length - 1]
        for byte in tail:
            code = code << 6 | byte & 0x3F
        whole = len(tail) == length - 1 and all(byte >> 6 == 2 for byte in tail)
        if not whole or (length == 1 and raw[position] > 0x7F) or code > 0x10FFFF or 0xD800 <= code < 0xE000:
            code, length = 0xFFFD, 1
        out.append(chr(code))
        position += length
    return "".join(out)
