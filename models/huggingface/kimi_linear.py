"""Kimi Linear: DeepSeek's names in layers of latent attention, names of its own in those of delta attention, and
Mixtral's of the experts."""

import numpy as np

from edgeinfer.errors import UnsupportedError
from edgeinfer.formats.virtual import Change
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import deepseek2, llama

ARCH = "kimi-linear"
CLASSES = ("KimiLinearForCausalLM",)
DELTA = {
    "attn_q": "q_proj",
    "attn_k": "k_proj",
    "attn_v": "v_proj",
    "attn_output": "o_proj",
    "ssm_norm": "o_norm",
    "ssm_beta": "b_proj",
    "ssm_f_a": "f_a_proj",
    "ssm_f_b": "f_b_proj",
    "ssm_g_a": "g_a_proj",
    "ssm_g_b": "g_b_proj",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    deepseek2.numbers(w)
    usual.head(w)
    count = usual.routed(w)
    kv_heads = np.ones(usual.layers(w), np.int32)
    for layer in w.layers(len(kv_heads)):
        w.copy({**usual.NORMS, **usual.MLP})
        if w.has("self_attn.A_log"):
            kv_heads[layer] = 0
            delta(w, DELTA, usual.decay)
        else:
            deepseek2.latent(w)
        usual.sparse(w, count, "block_sparse_moe", table=llama.EXPERTS)
    w.key("attention.head_count_kv", kv_heads)


def delta(w: Writer, names: dict[str, str], rate: Change, block: str = "self_attn") -> None:
    """Delta attention, of the logarithms of whose rates GGUF has `rate`."""
    w.copy({name: f"{block}.{source}" for name, source in names.items()})
    for name in "qkv":
        conv = w.take(f"{block}.{name}_conv1d.weight")
        w.put(f"ssm_conv1d_{name}.weight", conv.reshape(len(conv), 1, -1))
    logarithms = w.take(f"{block}.A_log").reshape(-1, 1)
    if len(logarithms) != usual.heads(w):
        raise UnsupportedError(f"delta attention has {len(logarithms)} heads and latent attention {usual.heads(w)}")
    w.put("ssm_a", logarithms, change=rate)
    w.put("ssm_dt.bias", w.take(f"{block}.dt_bias"))
    w.key("ssm.conv_kernel", conv.size // len(conv))
    w.key("kda.head_dim", len(w.take(f"{block}.o_norm.weight")))
