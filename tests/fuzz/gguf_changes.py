"""GGUF files changed with knowledge of what their fields mean.

A changed file is mostly sound, so that it comes past the first checks; often enough its fields contradict each other,
and now and then its bytes are noise."""

from __future__ import annotations

import dataclasses
import math
import random
import struct
from collections.abc import Sequence

from edgeinfer import models
from tests.fuzz import odd
from tests.fuzz.gguf_parts import ALIGNMENT, ARRAY, BLOCKS, STRING, Pair, Parts

_TYPES = [*BLOCKS, *BLOCKS, 4, 5, 31, 36, 43, 140, 0xFFFFFFFF]
_ARCHITECTURES = [name.replace("_", "-").encode() for name in models.names()]


def changed(rng: random.Random, parts: Parts, others: Sequence[Parts]) -> bytes:
    """A file like `parts` with one to four changes, some of them borrowed from `others`."""
    parts = parts.copy()
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4])):
        rng.choice(_CHANGES)(rng, parts, others)
    raw = parts.write()
    kind = rng.randrange(24)
    if kind == 0:
        raw = raw[: _cut(rng, len(raw))]
    elif kind == 1:
        raw = odd.flipped(rng, raw)
    elif kind == 2:
        raw = _lied(rng, parts, raw)
    elif kind == 3:
        raw += rng.choice([b"GGUF", rng.randbytes(40), raw[:200], bytes(5000)])
    return raw


# Changes of pairs


def _scalar(rng: random.Random, parts: Parts, others: Sequence[Parts]) -> None:
    """Another number or string for a key with a single one."""
    at = _place(rng, [i for i, pair in enumerate(parts.pairs) if pair.kind != ARRAY])
    if at is not None:
        pair = parts.pairs[at]
        assert isinstance(pair.value, bytes)
        if pair.kind == STRING:
            value = odd.string(rng, pair.value)
        elif pair.kind not in odd.FORMATS or len(pair.value) != odd.size(pair.kind):
            return
        else:
            value = odd.number(rng, pair.kind, struct.unpack("<" + odd.FORMATS[pair.kind], pair.value)[0])
        parts.pairs[at] = pair.with_value(value)


def _array(rng: random.Random, parts: Parts, others: Sequence[Parts]) -> None:
    """Another length or other values of an array."""
    at = _place(rng, [i for i, pair in enumerate(parts.pairs) if pair.kind == ARRAY])
    if at is None:
        return
    pair = parts.pairs[at]
    items = pair.value if isinstance(pair.value, list) else _numbers(pair)
    items = list(items)
    kind = rng.randrange(6)
    if kind == 0:
        del items[rng.randint(0, len(items)) :]
    elif kind == 1:
        items += items[: rng.choice([1, 7, len(items)])]
    elif kind == 2 and items:
        one = rng.choice(items)
        del items[rng.randrange(len(items)) :: rng.choice([1, 2, 50])]
        items += [one] * rng.randint(0, 5)
    elif kind == 3:
        rng.shuffle(items)
    else:
        for _ in range(rng.choice([1, 1, 3, 40])):
            if items:
                place = rng.randrange(len(items))
                items[place] = odd.string(rng, items[place]) if pair.inner == STRING else odd.number(rng, pair.inner)
    parts.pairs[at] = pair.with_value(items if pair.inner == STRING else b"".join(items))


def _kind(rng: random.Random, parts: Parts, others: Sequence[Parts]) -> None:
    """A value of another type under the same key."""
    at = _place(rng, range(len(parts.pairs)))
    if at is None:
        return
    pair = parts.pairs[at]
    kind = rng.choice([*odd.FORMATS, STRING, ARRAY, ARRAY, 13, 77])
    near = int.from_bytes(pair.value[:8], "little") if isinstance(pair.value, bytes) else 0
    if kind == STRING:
        parts.pairs[at] = Pair(pair.key, kind, odd.string(rng))
    elif kind != ARRAY:
        parts.pairs[at] = Pair(pair.key, kind, odd.number(rng, kind, near) if kind in odd.FORMATS else b"")
    elif rng.random() < 0.3:
        texts = [odd.text(rng, 2) for _ in range(rng.randint(0, 40))]
        parts.pairs[at] = Pair(pair.key, kind, texts, STRING, len(texts))
    else:
        inner, count = rng.choice([*odd.FORMATS]), rng.choice([0, 1, 2, 3, 4, 300])
        value = b"".join([odd.number(rng, inner, near) for _ in range(count)])
        parts.pairs[at] = Pair(pair.key, kind, value, inner, count)


def _key(rng: random.Random, parts: Parts, others: Sequence[Parts]) -> None:
    """A key less, more, twice or by another name."""
    at = _place(rng, range(len(parts.pairs)))
    if at is None:
        return
    kind = rng.randrange(8)
    if kind < 3:
        del parts.pairs[at]
    elif kind == 3:
        parts.pairs.insert(rng.randint(0, len(parts.pairs)), parts.pairs[at])
    elif kind == 4:
        pair = parts.pairs[at]
        parts.pairs[at] = dataclasses.replace(pair, key=rng.choice([b"", odd.text(rng, 2), odd.flipped(rng, pair.key)]))
    else:
        _borrow_pair(rng, parts, others)


def _borrow_pair(rng: random.Random, parts: Parts, others: Sequence[Parts]) -> None:
    """A key of another file, under this one's architecture."""
    other = rng.choice(others)
    mine, theirs = _architecture(parts), _architecture(other)
    if not other.pairs:
        return
    pair = rng.choice(other.pairs)
    if mine and theirs and pair.key.startswith(theirs + b"."):
        pair = dataclasses.replace(pair, key=mine + pair.key[len(theirs) :])
    parts.pairs = [p for p in parts.pairs if p.key != pair.key] + [pair]


def _arch(rng: random.Random, parts: Parts, others: Sequence[Parts]) -> None:
    """The same numbers and tensors under another architecture's name."""
    mine, theirs = _architecture(parts), rng.choice(_ARCHITECTURES)
    if mine:
        for at, pair in enumerate(parts.pairs):
            if pair.key == b"general.architecture":
                parts.pairs[at] = pair.with_value(theirs)
            elif pair.key.startswith(mine + b"."):
                parts.pairs[at] = dataclasses.replace(pair, key=theirs + pair.key[len(mine) :])


# Changes of tensors


def _tensor(rng: random.Random, parts: Parts, others: Sequence[Parts]) -> None:
    """Other dimensions, another type, name or place of a tensor; mostly the data move to where they are to be then."""
    at = _place(rng, range(len(parts.tensors)))
    if at is None:
        return
    info = parts.tensors[at]
    dims = list(info.dims)
    kind = rng.randrange(10)
    if kind < 3:
        place = rng.randrange(len(dims)) if dims else 0
        dims[place : place + 1] = [max(0, odd.whole(rng, dims[place] if dims else 1)) % (1 << 64)]
    elif kind == 3:
        rng.shuffle(dims)
    elif kind == 4:
        dims = rng.choice([dims[1:], [*dims, 1], [*dims, 2], [1, *dims], [math.prod(dims)], []])
    elif kind < 7:
        info = dataclasses.replace(info, kind=rng.choice(_TYPES))
    elif kind == 7:
        names = [other.name for other in parts.tensors]
        info = dataclasses.replace(info, name=rng.choice([*names, odd.text(rng, 3), odd.flipped(rng, info.name)]))
    elif kind == 8:
        offset = (info.offset + rng.choice([1, 8, -32, 32, 1 << 20, 1 << 62, 1 << 63])) % (1 << 64)
        parts.tensors[at] = dataclasses.replace(info, offset=offset)
        return
    else:
        other = rng.choice(others).tensors
        info = rng.choice(other) if other else info
        dims = list(info.dims)
    parts.tensors[at] = dataclasses.replace(info, dims=tuple(dims))
    if rng.random() < 0.9:
        _arrange(parts)


def _tensors(rng: random.Random, parts: Parts, others: Sequence[Parts]) -> None:
    """A tensor less, twice or in another place of the list."""
    at = _place(rng, range(len(parts.tensors)))
    if at is None:
        return
    kind = rng.randrange(4)
    info = parts.tensors[at]
    if kind < 2:
        del parts.tensors[at]
    elif kind == 2:
        layer = rng.choice([b"blk.0.", b"blk.1.", b"blk.999999999.", b"blk.-1.", b""])
        parts.tensors.append(dataclasses.replace(info, name=layer + info.name.rpartition(b".weight")[0] + b".weight"))
        _arrange(parts)
    else:
        rng.shuffle(parts.tensors)


def _arrange(parts: Parts) -> None:
    """Tensors one after the other, with data for as many of them as a small file holds."""
    end = 0
    for at, info in enumerate(parts.tensors):
        parts.tensors[at] = dataclasses.replace(info, offset=end % (1 << 64))
        end += info.size + -info.size % parts.alignment
    if len(parts.data) < end <= 1 << 18:
        parts.data += bytes(end - len(parts.data))


_NOISE = [
    *[struct.pack("<f", value) for value in (float("nan"), float("inf"), -float("inf"), 3e38, 1e-40, -1e30)],
    *[struct.pack("<e", value) * 2 for value in (float("nan"), float("inf"), 65504.0, -65504.0)],
    *[b"\xff" * 4, b"\x80" * 4, b"\x7f" * 4, bytes(4)],
]


def weights(rng: random.Random, parts: Parts, others: Sequence[Parts]) -> None:
    """Other bytes in the data: noise, or numbers that are none, in one place, in a run or in a whole tensor."""
    data = bytearray(parts.data)
    if not data:
        return
    for _ in range(rng.randint(1, 3)):
        info = rng.choice(parts.tensors) if parts.tensors else None
        start, size = (info.offset, info.size) if info else (0, len(data))
        if start >= len(data) or not size:
            continue
        size = min(size, len(data) - start)
        if rng.random() < 0.6:
            start += rng.randrange(size) & ~3
            size = min(size, rng.choice([2, 4, 4, 64, 1000]), len(data) - start)
        noise = rng.randbytes(size) if rng.random() < 0.3 else (rng.choice(_NOISE) * (size // 4 + 1))[:size]
        data[start : start + size] = noise
    parts.data = bytes(data)


def _whole(rng: random.Random, parts: Parts, others: Sequence[Parts]) -> None:
    """Version or alignment."""
    if rng.random() < 0.2:
        parts.version = odd.whole(rng, parts.version) % (1 << 32)
    else:
        number = rng.choice([8, 16, 64, 128, 1, 0, 7, 1 << 20, 1 << 31])
        parts.pairs.append(Pair(ALIGNMENT, 4, number.to_bytes(4, "little")))
        if 0 < number <= 128:
            parts.alignment = number
            _arrange(parts)


_CHANGES = [
    *[_scalar] * 8,
    *[_array] * 5,
    *[_kind] * 2,
    *[_key] * 3,
    _arch,
    *[_tensor] * 5,
    _tensors,
    weights,
    _whole,
]


# Helpers


def _lied(rng: random.Random, parts: Parts, raw: bytes) -> bytes:
    """A count, a length or a type in the header that is not true."""
    at = 24
    places = [(4, 4), (8, 8), (16, 8)]
    for pair in parts.pairs:
        places += [(at, 8), (at + 8 + len(pair.key), 4), (at + 12 + len(pair.key), 8), (at + 16 + len(pair.key), 8)]
        at += len(pair.raw)
    for info in parts.tensors:
        after = at + 8 + len(info.name)
        places += [(at, 8), (after, 4), (after + 4, 8), (after + 4 + 8 * len(info.dims), 4)]
        at += len(info.raw)
    start, size = rng.choice(places)
    old = int.from_bytes(raw[start : start + size], "little")
    return raw[:start] + (odd.whole(rng, old) % (1 << 8 * size)).to_bytes(size, "little") + raw[start + size :]


def _cut(rng: random.Random, size: int) -> int:
    return rng.choice([rng.randint(0, size), rng.randint(0, min(size, 2000)), max(0, size - rng.choice([1, 31, 4000]))])


def _place(rng: random.Random, places: Sequence[int]) -> int | None:
    return rng.choice(places) if places else None


def _numbers(pair: Pair) -> list[bytes]:
    assert isinstance(pair.value, bytes)
    size = odd.size(pair.inner)
    return [pair.value[i : i + size] for i in range(0, len(pair.value), size)]


def _architecture(parts: Parts) -> bytes:
    value = parts.value(b"general.architecture")
    return value if isinstance(value, bytes) else b""
