"""Nemotron and Minitron: norm weights are what is to be added to 1, and have biases."""

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "nemotron"
CLASSES = ("NemotronForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "relu2")
    usual.sizes(w, "layer")
    rope.write(w, usual.head_dim(w), 0.5)
    w.put("output_norm.weight", w.take("model.norm.weight"), change=usual.one_more)
    usual.head(w)
    for _ in w.layers(usual.layers(w)):
        for name, source in usual.NORMS.items():
            w.put(f"{name}.weight", w.take(f"{source}.weight"), change=usual.one_more)
        w.copy(usual.LAYER)
