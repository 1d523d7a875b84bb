"""Laguna: the usual names and a gate behind attention; layers may differ in their heads."""

import numpy as np

from edgeinfer.config import MAX_HEADS
from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "laguna"
CLASSES = ("LagunaForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w)
    rope.write_local(w, usual.head_dim(w))
    w.key("attention.head_count", heads(w))
    local = usual.windows(w, 1)
    if local.any():
        w.key("attention.sliding_window", w.config.integer("sliding_window"))
        w.key("attention.sliding_window_pattern", local)
    count = experts(w)
    for _ in w.layers(usual.layers(w)):
        w.copy({**usual.NORMS, **usual.ATTENTION, "attn_gate": "self_attn.g_proj"})
        usual.sparse(w, count, shared="shared_expert")


def heads(w: Writer) -> np.ndarray:
    """int32 [layers]"""
    count = usual.layers(w)
    found = w.config.numbers("num_attention_heads_per_layer", count=count, default=[usual.heads(w)] * count)
    return np.clip(found, 0, MAX_HEADS + 1).astype(np.int32)


def experts(w: Writer) -> int:
    if w.config.number("moe_router_logit_softcapping", default=0.0):
        raise UnsupportedError(f"{w.config.where}: the router's scores are soft-capped, which {w.arch} has not")
    if w.config.flag("moe_apply_router_weight_on_input", default=False):
        raise UnsupportedError(f"{w.config.where}: experts' inputs are weighed; {w.arch} weighs their outputs")
    w.key("expert_weights_norm", True)
    w.key("expert_weights_scale", w.config.number("moe_routed_scaling_factor", default=1.0))
    return usual.routed(w)
