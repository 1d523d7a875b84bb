"""ERNIE 4.5 with experts: the usual names, the bias for the choice by one of its own."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "ernie4_5-moe"
CLASSES = ("Ernie4_5_MoeForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w)
    count = usual.expert_keys(w)
    w.key("leading_dense_block_count", w.config.integer("moe_layer_start_index", default=0))
    w.key("interleave_moe_layer_step", w.config.integer("moe_layer_interval", default=1))
    for _ in w.layers(usual.layers(w)):
        w.copy({**usual.NORMS, **usual.ATTENTION})
        usual.sparse(w, count)
