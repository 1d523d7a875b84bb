"""Mellum 2: Qwen3-MoE's names, windows, and RoPE that is scaled in the layers without."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "mellum"
CLASSES = ("MellumForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w)
    base = rope.base(w.config)
    if rope.local_base(w.config) != base:
        raise UnsupportedError(
            f"{w.config.where}: layers with a window have another rope_theta, which {w.arch} has not"
        )
    w.key("attention.sliding_window", w.config.integer("sliding_window", default=0))
    w.key("attention.sliding_window_pattern", usual.windows(w, 1))
    count = usual.expert_keys(w)
    for _ in w.layers(usual.layers(w)):
        w.copy({**usual.NORMS, **usual.ATTENTION})
        usual.sparse(w, count)
