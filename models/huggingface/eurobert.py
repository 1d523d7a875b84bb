"""EuroBERT: Llama's names."""

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "eurobert"
CLASSES = ("EuroBertModel", "EuroBertForMaskedLM")
PREFIX = "model."
MODEL = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.sizes(w)
    w.key("attention.causal", False)
    rope.write(w, usual.head_dim(w))
    w.ignore("lm_head.weight", "lm_head.bias")
    w.copy(MODEL)
    for _ in w.layers(usual.layers(w)):
        w.copy(usual.LAYER)
