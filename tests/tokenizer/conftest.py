"""Small vocabularies, written as GGUF files, and the real models where they are at hand."""

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import gguf
import pytest

from edgeinfer.tokenizer import Tokenizer
from edgeinfer.tokenizer.byte_alphabet import CHARACTERS

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
Write = Callable[..., pathlib.Path]


@pytest.fixture
def write(tmp_path: pathlib.Path) -> Write:
    """Writes the keys tokenizer.ggml.KEY (dots as in the keyword's name) of a file that holds nothing else."""

    def write_file(name: str = "", **keys: Any) -> pathlib.Path:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        if name:
            writer.add_name(name)
        for key, value in keys.items():
            add = {bool: writer.add_bool, int: writer.add_int32, str: writer.add_string}.get(
                type(value), writer.add_array
            )
            add(f"tokenizer.ggml.{key}", value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return path

    return write_file


@pytest.fixture
def bpe(write: Write) -> Callable[..., Tokenizer]:
    """A byte-level tokenizer of 256 bytes (id = byte), then what `merges` make, then `special` (text, type)."""

    def make(
        merges: Sequence[str] = (),
        special: Sequence[tuple[str, int]] = (),
        lacks: str = "",
        pre: str = "gpt-2",
        **keys: Any,
    ) -> Tokenizer:
        alphabet = [CHARACTERS[byte] for byte in range(256)]
        tokens = [f"?{c}" if c in lacks else c for c in alphabet] + [pair.replace(" ", "") for pair in merges]
        types = [NORMAL] * len(tokens) + [kind for _, kind in special]
        tokens += [text for text, _ in special]
        path = write(model="gpt2", pre=pre, tokens=tokens, token_type=types, merges=list(merges) or ["a b"], **keys)
        return Tokenizer.from_gguf(path)

    return make


@pytest.fixture
def spm(write: Write) -> Callable[..., Tokenizer]:
    """A SentencePiece tokenizer: 0 <unk>, 1 <s>, 2 </s>, bytes 3..258, `pieces` with scores -1, -2 ..., `special`."""

    def make(
        pieces: Sequence[str] = (), special: Sequence[tuple[str, int]] = (), scores: Sequence[float] = (), **keys: Any
    ) -> Tokenizer:
        tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
        types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces) + [kind for _, kind in special]
        tokens += [text for text, _ in special]
        own = scores or [-1.0 - rank for rank in range(len(pieces))]
        all_scores = [0.0] * 259 + list(own) + [0.0] * len(special)
        return Tokenizer.from_gguf(write(model="llama", tokens=tokens, token_type=types, scores=all_scores, **keys))

    return make


@pytest.fixture(scope="session")
def real() -> Callable[[str], Tokenizer]:
    """The tokenizer of a real model, by its file's name; the test is skipped where there is no such file."""
    made: dict[str, Tokenizer] = {}

    def find(name: str) -> Tokenizer:
        folders = [os.environ.get("EDGEINFER_TEST_MODELS"), pathlib.Path.home() / ".cache/edgeinfer-peers/models"]
        paths = [pathlib.Path(folder) / name for folder in folders if folder]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            pytest.skip(f"needs {name} in the folder that EDGEINFER_TEST_MODELS names")
        return made.setdefault(name, Tokenizer.from_gguf(path))

    return find
