"""Jamba: Mamba's names in most layers, experts in some."""

import numpy as np

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import mamba

ARCH = "jamba"
CLASSES = ("JambaForCausalLM",)
MODEL = {**usual.MODEL, "output_norm": "model.final_layernorm"}
LAYER = {
    **usual.ATTENTION,
    "attn_norm": "input_layernorm",
    "ffn_norm": "pre_ff_layernorm",
    "ffn_gate_inp": "feed_forward.router",
    "ssm_dt_norm": "mamba.dt_layernorm",
    "ssm_b_norm": "mamba.b_layernorm",
    "ssm_c_norm": "mamba.c_layernorm",
}
MLP = {name: source.replace("mlp", "feed_forward") for name, source in usual.MLP.items()}
EXPERTS = {name: source.replace("mlp", "feed_forward") for name, source in usual.EXPERTS.items()}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.sizes(w)
    usual.head(w, MODEL)
    inner = w.config.integer("mamba_expand") * usual.dim(w)
    rank = w.config.integer("mamba_dt_rank")
    mamba.keys(w, inner, w.config.integer("mamba_d_state"), rank, w.config.integer("mamba_d_conv"))
    count = usual.expert_keys(w)
    kv_heads = np.zeros(usual.layers(w), np.int32)
    for layer in w.layers(usual.layers(w)):
        w.copy({**LAYER, **MLP})
        if w.has("mamba.in_proj.weight"):
            mamba.mixer(w, "mamba")
        else:
            kv_heads[layer] = usual.kv_heads(w)
        if w.has("feed_forward.router.weight"):
            usual.experts(w, count, EXPERTS)
    w.key("attention.head_count_kv", kv_heads)
