"""Gemma 1: norm weights are what is to be added to 1; the output matrix is the embedding."""

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "gemma"
CLASSES = ("GemmaForCausalLM",)


def write(w: Writer) -> None:
    usual.sizes(w)
    rope.write(w, usual.head_dim(w))
    layers(w, usual.NORMS)


def layers(w: Writer, norms: dict[str, str]) -> None:
    """Also those of Gemma 2 and 3, which have more norms."""
    w.ignore("lm_head.weight")
    w.copy({"output_norm": "model.norm"}, usual.one_more)
    w.copy({"token_embd": "model.embed_tokens"})
    for _ in w.layers(usual.layers(w)):
        w.copy(norms, usual.one_more)
        w.copy({**usual.ATTENTION, **usual.MLP})
