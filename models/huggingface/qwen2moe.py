"""Qwen1.5-MoE and Qwen2-MoE: the usual names, experts and a shared expert behind a gate."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "qwen2moe"
CLASSES = ("Qwen2MoeForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.lose_window(w)
    usual.begin(w)
    count = usual.expert_keys(w)
    for _ in w.layers(usual.layers(w)):
        w.copy({**usual.NORMS, **usual.ATTENTION})
        usual.sparse(w, count, shared="shared_expert")
