"""EmbeddingGemma: Gemma 3's names, and the linear layers that sentence-transformers has behind it."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import gemma3

ARCH = "gemma-embedding"
CLASSES = ("Gemma3TextModel",)
PREFIX = "model."
DEFAULTS = gemma3.DEFAULTS


def write(w: Writer) -> None:
    if not w.config.flag("use_bidirectional_attention", default=False):
        raise UnsupportedError(f"{w.config.where}: use_bidirectional_attention is not true, which {w.arch} means")
    gemma3.write(w)
    w.key("attention.causal", False)
    for number in (2, 3):
        source = f"{number}_Dense.linear"
        if w.has(f"{source}.weight"):
            matrix = w.take(f"{source}.weight")
            w.key(f"dense_{number}_feat_in", matrix.shape[1])
            w.key(f"dense_{number}_feat_out", len(matrix))
            w.copy({f"dense_{number}": source})
