"""Ling 3: Kimi Linear's tensors by names of its own."""

import numpy as np

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import deepseek2, kimi_linear, step35

ARCH = "bailingmoe3"
CLASSES = ("BailingHybridForCausalLM", "BailingMoeV3ForCausalLM")
DEFAULTS = {"rope_theta": 6e6, "moe_renormalize": True}
MODEL = {**usual.MODEL, "token_embd": "model.word_embeddings"}
SHORT = {"attn_output": "dense", "ssm_f_a": "f_proj", "ssm_g_a": "g_proj"}  # for matrices of low rank and a second one
LIMITS = {"swiglu_clamp_exp": "expert_swiglu_limit_list", "swiglu_clamp_shexp": "share_expert_swiglu_limit_list"}
DELTA = {name: source for name, source in kimi_linear.DELTA.items() if name not in ("ssm_f_b", "ssm_g_b")} | SHORT


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    if not w.config.flag("kda_safe_gate", default=True):
        raise UnsupportedError(f"{w.config.where}: kda_safe_gate is false; {w.arch} has a bound")
    deepseek2.numbers(w)
    w.key("kda.gate_lower_bound", w.config.number("kda_lower_bound", default=-5.0))
    usual.head(w, MODEL)
    count = usual.routed(w)
    for name, source in LIMITS.items():
        step35.limits(w, name, source)
    kv_heads = np.ones(usual.layers(w), np.int32)
    for layer in w.layers(len(kv_heads)):
        w.copy(usual.NORMS)
        if w.has("attention.A_log"):
            kv_heads[layer] = 0
            kimi_linear.delta(w, DELTA, np.exp, "attention")
        else:
            deepseek2.latent(w, "attention")
            w.copy({"attn_output": "attention.dense", "attn_gate": "attention.g_proj"})
        usual.sparse(w, count)
    w.key("attention.head_count_kv", kv_heads)
