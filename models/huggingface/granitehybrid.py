"""Granite 4: Granite MoE's feed-forward, Mamba 2 in most layers."""

import numpy as np

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import granite, granitemoe, mamba2

ARCH = "granitehybrid"
CLASSES = ("GraniteMoeHybridForCausalLM",)


def write(w: Writer) -> None:
    granite.scales(w)
    usual.begin(w)
    w.key("rope.scaling.finetuned", w.config.get("position_embedding_type", default="nope") == "rope")
    experts = granitemoe.expert_keys(w)
    if not experts:
        w.key("feed_forward_length", w.config.integer("shared_intermediate_size"))
    inner = w.config.integer("mamba_expand", default=2) * usual.dim(w)
    mamba2.keys(
        w,
        inner,
        w.config.integer("mamba_d_state"),
        w.config.integer("mamba_n_heads"),
        w.config.integer("mamba_n_groups"),
        w.config.integer("mamba_d_conv"),
    )
    kv_heads = np.zeros(usual.layers(w), np.int32)
    for layer in w.layers(usual.layers(w)):
        if w.has("mamba.in_proj.weight"):
            mamba2.mixer(w, "mamba")
        else:
            kv_heads[layer] = usual.kv_heads(w)
            usual.turn(w)
        w.copy(usual.LAYER)
        granitemoe.feed_forward(w, experts)
    w.key("attention.head_count_kv", kv_heads)
