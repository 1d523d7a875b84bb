"""Target: loading a vocabulary, texts to ids and ids to bytes."""

from __future__ import annotations

import random
import zlib

from edgeinfer.healing import back_up
from edgeinfer.tokenizer import TextStream, Tokenizer
from tests.fuzz import gguf_changes, odd, seeds
from tests.fuzz.place import placed


def make(rng: random.Random) -> bytes:
    return gguf_changes.changed(rng, rng.choice(seeds.vocabularies()), seeds.vocabularies())


def run(case: bytes) -> None:
    rng = random.Random(zlib.crc32(case))
    with placed(case) as path:
        tokenizer = Tokenizer.from_gguf(path)
    assert tokenizer.n_vocab == len(tokenizer.pieces)
    for count in (0, 3, 8, 300 if rng.random() < 0.02 else 5):
        raw = odd.text(rng, count) + rng.choice(tokenizer.pieces)[:50]
        texts: list[str | bytes] = [raw, raw.decode("utf-8", "surrogateescape"), raw.decode("utf-8", "replace")]
        text = rng.choice(texts)
        ids = tokenizer.encode(text, parse_special=rng.random() < 0.5, exact=rng.random() < 0.5)
        assert all(0 <= id < tokenizer.n_vocab for id in ids)
        tokenizer.decode(ids, special=rng.random() < 0.5)
        stream = TextStream(tokenizer, stops=["ab"])
        for id in [*ids, rng.randrange(tokenizer.n_vocab)]:
            stream.push(id)
        stream.finish()
        assert 0 <= back_up(tokenizer.texts, ids) <= len(ids)
