"""Odd numbers and odd texts: what hostile files put where a reader expects ordinary ones."""

from __future__ import annotations

import random
import struct

FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}  # by GGUF's type
FLOATS = (6, 12)

_SMALL = [*range(9), 15, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256, 257, 1000, 1024, 4096, 65535, 65536]
_HUGE = [(1 << bits) + more for bits in (20, 24, 31, 32, 40, 48, 61, 62, 63, 64) for more in (-1, 0, 1)]
_REAL = [0.0, 1.0, 0.5, 2.0, 1e-45, 1e-38, 1e-5, 1e5, 3e38, float("inf"), float("nan")]
_PIECES = [
    *" |  |\t|\n|\r\n|\n\n|\0|\\|\\x0|\\xff|a|b|ab|the|0|12345|'s|<|>|{{|{%|%}".split("|"),
    *"é e\u0301 ß İ ﬁ 世界 한국 ไทย हिं 😀 👩\u200d👩\u200d👧 \u200b \ufeff \ufffd \uffff \u2028 \U0010ffff".split(" "),
    *"\ud800 \udcff ▁ ▁a Ġ Ċ <0x0A> <0xFF> <0xGG> <s> </s> <unk> [CLS] [SEP] <| |> <|im_start|> <|im_end|>".split(" "),
    "x" * 70,
]
_BYTES = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x96", b"\xf0\x9f", b"\x80", b"\0", b"GGUF"]
_NAMES = (
    "llama qwen2 gemma3 mamba2 rwkv7 bert t5 gpt2 rwkv gemma4 plamo2 no-vocab default llama-bpe tekken deepseek-v3 "
    "sarvam-moe none linear yarn longrope su token_embd"
).split()


def size(kind: int) -> int:
    """Bytes of a number of a GGUF type."""
    return struct.calcsize(FORMATS[kind])


def whole(rng: random.Random, near: int = 0) -> int:
    """A whole number: small, huge, negative or near to another one."""
    kind = rng.randrange(8)
    if kind < 3:
        more: int = rng.choice([-1, 1, 2, -2, 8, near, -(near // 2), 31 * near, -2 * near])
        return near + more
    if kind < 6:
        return rng.choice(_SMALL)
    return rng.choice(_HUGE) if kind == 6 else -rng.choice(_SMALL)


def real(rng: random.Random, near: float = 0.0) -> float:
    return near * rng.choice([2, -1, 0.5, 1e6, 1e-6]) if rng.random() < 0.2 else rng.choice(_REAL) * rng.choice([1, -1])


def number(rng: random.Random, kind: int, near: float = 0) -> bytes:
    """The bytes of a number of a GGUF type."""
    if kind in FLOATS:
        value = real(rng, near)
        if kind == 6 and abs(value) > 3.4e38:
            value = float("inf")
        return struct.pack("<" + FORMATS[kind], value)
    return (whole(rng, int(near)) % (1 << 8 * size(kind))).to_bytes(size(kind), "little")


def text(rng: random.Random, most: int = 12) -> bytes:
    """A text of odd pieces, perhaps no UTF-8."""
    pieces = []
    for _ in range(rng.randint(0, most)):
        if rng.random() < 0.12:
            pieces.append(rng.choice(_BYTES))
        else:
            pieces.append(rng.choice(_PIECES).encode("utf-8", "surrogatepass"))
    return b"".join(pieces)


def string(rng: random.Random, old: bytes = b"") -> bytes:
    """A string for metadata: a name that means something elsewhere, an odd text, the old one changed, or a long one."""
    kind = rng.randrange(10)
    if kind < 4:
        return rng.choice(_NAMES).encode()
    if kind < 7:
        return text(rng)
    if kind < 9:
        return flipped(rng, old)
    return text(rng, 3) * rng.choice([10, 1000, 20_000])


def flipped(rng: random.Random, raw: bytes) -> bytes:
    """A few bytes changed, cut out or put in."""
    data = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(data))
        kind = rng.randrange(4)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[at % len(data)] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 2:
            del data[at : at + rng.choice([1, 2, 4, 8, 32])]
        else:
            data[at:at] = rng.choice(_BYTES) if rng.random() < 0.5 else rng.randbytes(rng.randint(1, 8))
    return bytes(data)
