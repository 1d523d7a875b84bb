"""Qwen3-Next: norm weights are what is to be added to 1; the delta networks' Q, K, V and gate come group by group."""

import numpy as np

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "qwen3next"
CLASSES = ("Qwen3NextForCausalLM",)
NORMS = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    numbers(w)
    count = usual.expert_keys(w)
    usual.head(w)
    for _ in w.layers(usual.layers(w)):
        w.copy(NORMS, usual.one_more)
        w.copy(usual.ATTENTION)
        if w.has("linear_attn.A_log"):
            delta_net(w)
        usual.sparse(w, count, shared="shared_expert")


def numbers(w: Writer) -> None:
    """All but the experts'; also Qwen3.5's."""
    usual.sizes(w)
    rope.write(w, usual.head_dim(w), 0.25)
    size, heads = w.config.integer("linear_value_head_dim"), w.config.integer("linear_num_value_heads")
    w.key("ssm.state_size", w.config.integer("linear_key_head_dim"))
    w.key("ssm.group_count", w.config.integer("linear_num_key_heads"))
    w.key("ssm.time_step_rank", heads)
    w.key("ssm.inner_size", heads * size)
    w.key("ssm.conv_kernel", w.config.integer("linear_conv_kernel_dim"))
    w.key("full_attention_interval", w.config.integer("full_attention_interval", default=4))
    w.copy({"output_norm": "model.norm"}, usual.one_more)


def delta_net(w: Writer) -> None:
    groups, heads = w.config.integer("linear_num_key_heads"), w.config.integer("linear_num_value_heads")
    key, value = w.config.integer("linear_key_head_dim"), w.config.integer("linear_value_head_dim")
    share, dim = heads // groups, usual.dim(w)
    all_parts = w.take("linear_attn.in_proj_qkvz.weight").reshape(groups, 2 * key + 2 * share * value, dim)
    q, k, v, z = np.split(all_parts, np.cumsum([key, key, share * value]), axis=1)
    w.put("attn_qkv.weight", q, k, v, shape=(2 * groups * key + heads * value, dim))
    w.put("attn_gate.weight", z, shape=(heads * value, dim))
    w.copy({"ssm_ba": "linear_attn.in_proj_ba", "ssm_norm": "linear_attn.norm", "ssm_out": "linear_attn.out_proj"})
    conv = w.take("linear_attn.conv1d.weight")
    w.put("ssm_conv1d.weight", conv.reshape(conv.shape[0], conv.shape[-1]))
    w.put("ssm_a", w.take("linear_attn.A_log"), change=usual.decay)
    w.put("ssm_dt.bias", w.take("linear_attn.dt_bias"))
