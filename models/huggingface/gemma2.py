"""Gemma 2: Gemma's weights with norms before and after each branch."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import gemma

ARCH = "gemma2"
CLASSES = ("Gemma2ForCausalLM",)
LAYERS_OF_27B = 46


def write(w: Writer) -> None:
    usual.sizes(w)
    rope.write(w, usual.head_dim(w))
    w.key("attention.sliding_window", w.config.integer("sliding_window"))
    w.key("attn_logit_softcapping", w.config.number("attn_logit_softcapping", default=0.0))
    w.key("final_logit_softcapping", w.config.number("final_logit_softcapping", default=0.0))
    check_scale(w, LAYERS_OF_27B)
    gemma.layers(w, usual.SANDWICH)


def check_scale(w: Writer, layers_of_27b: int) -> None:
    """GGUF has no key for the scale of the scores: it is that of the sizes that were published."""
    large = usual.layers(w) == layers_of_27b
    meant = usual.dim(w) // usual.heads(w) if large else usual.head_dim(w)
    scalar = w.config.number("query_pre_attn_scalar", default=float(meant))
    if scalar != meant:
        raise UnsupportedError(f"{w.config.where}: query_pre_attn_scalar is {scalar:g}; {w.arch} has {meant}")
