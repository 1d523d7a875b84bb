"""Command-R: the usual names, one norm for both branches."""

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "command-r"
CLASSES = ("CohereForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.sizes(w, "layer")
    rope.write(w, usual.head_dim(w))
    w.key("logit_scale", w.config.number("logit_scale", default=0.0625))
    w.ignore("lm_head.weight")
    w.copy({name: source for name, source in usual.MODEL.items() if name != "output"})
    for _ in w.layers(usual.layers(w)):
        w.copy(usual.LAYER)
