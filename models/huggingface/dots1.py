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
    count = usual.expert_keys(w)
    w.key("expert_gating_func", 2)  # sigmoid
    w.key("leading_dense_block_count", usual.dense_layers(w))
    if w.config.has("n_group") and w.config.has("topk_group"):
        w.key("expert_group_count", w.config.integer("n_group"))
        w.key("expert_group_used_count", w.config.integer("topk_group"))
    for _ in w.layers(usual.layers(w)):
        w.copy({**norms, **usual.ATTENTION})
        usual.sparse(w, count)
