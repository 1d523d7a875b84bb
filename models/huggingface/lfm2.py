"""LFM2: short convolutions in most layers, experts in the larger models."""

import numpy as np

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "lfm2"
CLASSES = ("Lfm2ForCausalLM",)
MODEL = {"token_embd": "model.embed_tokens", "token_embd_norm": "model.embedding_norm", "output": "lm_head"}
LAYER = {
    **usual.ATTENTION,
    "attn_norm": "operator_norm",
    "attn_output": "self_attn.out_proj",
    "attn_q_norm": "self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_layernorm",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.out_proj": "conv.out_proj",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "feed_forward.w1",
    "ffn_up": "feed_forward.w3",
    "ffn_down": "feed_forward.w2",
    "ffn_gate_inp": "feed_forward.gate",
}


def write(w: Writer) -> None:
    usual.begin(w, model=MODEL)
    w.key("shortconv.l_cache", w.config.integer("conv_L_cache"))
    kv_heads, widths = np.zeros(usual.layers(w), np.int32), set()
    for layer in w.layers(usual.layers(w)):
        w.copy(LAYER)
        if w.has("conv.conv.weight"):
            kernel = w.take("conv.conv.weight")
            w.put("shortconv.conv.weight", kernel.reshape(kernel.shape[0], kernel.shape[-1]))
        else:
            kv_heads[layer] = usual.kv_heads(w)
        if w.has("feed_forward.w1.weight"):
            widths.add(len(w.take("feed_forward.w1.weight")))  # config.json has it before it is rounded
        if w.has("feed_forward.gate.weight"):
            experts(w)
    w.key("attention.head_count_kv", kv_heads)
    if widths:
        w.key("feed_forward_length", max(widths))


def experts(w: Writer) -> None:
    count = usual.expert_keys(w)
    w.key("expert_gating_func", 2)  # sigmoid
    w.key("leading_dense_block_count", w.config.integer("num_dense_layers", default=0))
    table = {"ffn_gate_exps": "w1", "ffn_up_exps": "w3", "ffn_down_exps": "w2"}
    usual.experts(w, count, {name: f"feed_forward.experts.{{}}.{part}" for name, part in table.items()})
    if w.has("feed_forward.expert_bias"):
        w.put("exp_probs_b.bias", w.take("feed_forward.expert_bias"))
