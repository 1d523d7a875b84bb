"""Target: opening a file, reading all of its metadata and tensors, and `edgeinfer show`."""

from __future__ import annotations

import contextlib
import io
import random
import zlib

from edgeinfer.cli import show
from edgeinfer.formats import gguf
from edgeinfer.formats.magic import MAGIC
from tests.fuzz import gguf_changes, seeds
from tests.fuzz.place import InMemory, placed

_SMALL = 1 << 10  # bytes of a tensor that is worth dequantising
_CONTEXTS = (None, None, 1, 40, 1 << 20, 1 << 40)


def make(rng: random.Random) -> bytes:
    return gguf_changes.changed(rng, rng.choice(seeds.files()), seeds.files())


def run(case: bytes) -> None:
    if zlib.crc32(case) % 8 and case[:4] == MAGIC:  # the rest takes longer, and finds less
        _look(gguf.read("case", InMemory(case)))
        return
    with placed(case) as path:
        with gguf.open(path) as file:
            _look(file)
            for tensor in file.tensors.values():
                if tensor.type.computable and tensor.nbytes <= _SMALL:
                    assert tensor.float32().shape == tensor.shape
        shown(path, case)


def shown(path: str, case: bytes) -> None:
    """`edgeinfer show`, whose output goes nowhere."""
    number = zlib.crc32(case) >> 8
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace")):
        show.command(path, _CONTEXTS[number % len(_CONTEXTS)], as_json=number % 2 == 0)


def _look(file: gguf.GgufFile) -> None:
    assert all(file.metadata[key] is not None for key in file.metadata)
    for tensor in file.tensors.values():
        assert tensor.data.nbytes == tensor.nbytes
