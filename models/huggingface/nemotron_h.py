"""Nemotron-H and Nemotron 3 Nano: each layer is a mixer of Mamba 2, attention, or a feed-forward."""

import numpy as np

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import mamba, mamba2

ARCH = "nemotron_h"
CLASSES = ("NemotronHForCausalLM",)
LAYER = {
    "attn_norm": "norm",
    **{name: source.replace("self_attn", "mixer") for name, source in usual.ATTENTION.items()},
    "ffn_gate_inp": "mixer.gate",
    "ffn_up_shexp": "mixer.shared_experts.up_proj",
    "ffn_down_shexp": "mixer.shared_experts.down_proj",
}
MLP = {"ffn_up": "mixer.up_proj", "ffn_down": "mixer.down_proj"}
EXPERTS = {f"{name}_exps": f"mixer.experts.{{}}.{name[4:]}_proj" for name in MLP}


def write(w: Writer) -> None:
    usual.expect_activation(w, "relu2")
    count = usual.layers(w)
    if any(w.has(f"backbone.layers.{layer}.mixer.gate.weight") for layer in range(count)):
        w.arch = "nemotron_h_moe"
    usual.sizes(w)
    usual.epsilon(w, "layer")  # which other readers want, though the norms are RMS norms
    heads = w.config.integer("mamba_num_heads")
    mamba2.keys(
        w,
        heads * w.config.integer("mamba_head_dim"),
        w.config.integer("ssm_state_size"),
        heads,
        w.config.integer("n_groups"),
        w.config.integer("conv_kernel"),
    )
    usual.head(w, mamba.MODEL)
    kv_heads, widths = np.zeros(count, np.int32), np.zeros(count, np.int32)
    for layer in w.layers(count, "backbone.layers"):
        w.copy(LAYER)
        if w.has("mixer.A_log"):
            mamba2.mixer(w, "mixer")
        elif w.has("mixer.q_proj.weight"):
            kv_heads[layer] = usual.kv_heads(w)
        elif w.has("mixer.gate.weight"):
            widths[layer] = w.config.integer("moe_intermediate_size")
            experts(w)
        else:
            widths[layer] = usual.ff_dim(w)
            w.copy(MLP)
    w.key("attention.head_count_kv", kv_heads)
    w.key("feed_forward_length", widths)


def experts(w: Writer) -> None:
    count = usual.expert_keys(w)
    w.key("expert_gating_func", 2)  # sigmoid
    w.key("expert_shared_feed_forward_length", w.config.integer("moe_shared_expert_intermediate_size"))
    w.key("expert_group_count", w.config.integer("n_group", default=1))
    w.key("expert_group_used_count", w.config.integer("topk_group", default=1))
    w.put("exp_probs_b.bias", w.take("mixer.gate.e_score_correction_bias"))
    usual.experts(w, count, EXPERTS)
