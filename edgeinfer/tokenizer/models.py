"""Chooses what turns text without special tokens into ids: byte pairs or SentencePiece.

Each comes with a library, imported only when a file needs it."""

from typing import Protocol

from edgeinfer.formats.gguf import GgufFile
from edgeinfer.tokenizer.vocabulary import Vocabulary


class Model(Protocol):
    """`space_prefix`: a blank goes before each text.  `add_bos`: what holds where the file does not say.
    `drops_blanks`: see `pretokenizers.PreTokenizer`."""

    space_prefix: bool
    add_bos: bool
    drops_blanks: bool

    def encode(self, raw: bytes, exact: bool) -> list[int]:
        """Ids of `raw`, whose broken UTF-8 keeps its bytes if `exact`."""

    def piece_bytes(self, piece: bytes) -> bytes:
        """What a normal piece stands for."""


def make_model(file: GgufFile, vocabulary: Vocabulary, pre: str | None) -> Model:
    """The model of `vocabulary`; `pre` overrides the file's tokenizer.ggml.pre."""
    if vocabulary.model == "llama":
        from edgeinfer.tokenizer.spm import Spm

        return Spm(file, vocabulary)
    from edgeinfer.tokenizer.bpe import Bpe
    from edgeinfer.tokenizer.pretokenizers import pre_tokenizer

    return Bpe(file, vocabulary, pre_tokenizer(file.get("tokenizer.ggml.pre", str, "default") if pre is None else pre))
