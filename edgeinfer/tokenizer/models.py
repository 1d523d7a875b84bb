"""Chooses what turns text without special tokens into ids, by tokenizer.ggml.model.

Some come with a library, imported only when a file needs it."""

import importlib
from typing import Protocol

from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.texts import Alphabet
from edgeinfer.tokenizer.vocabulary import Vocabulary


class Model(Protocol):
    """`space_prefix`: a blank goes before each text.  `add_bos`: what holds where the file does not say.
    `drops_blanks`: see `pretokenizers.PreTokenizer`.  `alphabet`: how normal pieces are spelt."""

    space_prefix: bool
    add_bos: bool
    drops_blanks: bool
    alphabet: Alphabet

    def encode(self, raw: bytes, exact: bool) -> list[int]:
        """Ids of `raw`, a whole text or what lies between special tokens; broken UTF-8 keeps its bytes if `exact`."""


_CLASSES = {
    "bert": "wordpiece.WordPiece",
    "gemma4": "line_bpe.LineBpe",
    "gpt2": "bpe.Bpe",
    "llama": "spm.Spm",
    "plamo2": "plamo2.Plamo2",
    "rwkv": "rwkv.Rwkv",
    "t5": "unigram.Unigram",
}


def make_model(file: GgufFile, vocabulary: Vocabulary, pre: str | None) -> Model:
    """The model of `vocabulary`; `pre` overrides the file's tokenizer.ggml.pre, which only `gpt2` vocabularies have."""
    kind, arguments = vocabulary.model, list[object]()
    if kind == "gpt2":
        from edgeinfer.tokenizer.pretokenizers import LINES, pre_tokenizer

        name = file.get("tokenizer.ggml.pre", str, "default") if pre is None else pre
        kind, arguments = ("gemma4", []) if name in LINES else (kind, [pre_tokenizer(name)])
    module, _, name = _CLASSES[kind].partition(".")
    model: Model = getattr(importlib.import_module(f"edgeinfer.tokenizer.{module}"), name)(file, vocabulary, *arguments)
    return model
