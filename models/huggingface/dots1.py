"""dots.llm1: the usual names, experts with a bias for the choice, shared experts."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "dots1"
CLASSES = ("Dots1ForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w)
    layers(w, usual.NORMS)


def layers(w: Writer, norms: dict[str, str]) -> None:
    """Also those of others whose routers go by a sigmoid."""
    count = usual.routed(w)
    for _ in w.layers(usual.layers(w)):
        w.copy({**norms, **usual.ATTENTION})
        usual.sparse(w, count)
