"""GLM 5.3, text: Kimi Linear's names in layers of delta attention, DeepSeek V3.2's in those of latent attention, and
names of its own for pools of positions and for residual streams."""

import numpy as np

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import deepseek2, deepseek32, hy_v4, kimi_linear

ARCH = "glm5-next"
CLASSES = ("Glm5NextForConditionalGeneration",)
DEFAULTS = {"qk_rope_head_dim": 0, "rms_norm_eps": 1e-5, "norm_topk_prob": True}
POOLS = {name: f"self_attn.indexer.index_kpool_compress_{name}" for name in ("gate", "ape")}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    w.config.values.pop("head_dim", None)  # of what turns in a head, which is nothing
    deepseek2.numbers(w)
    deepseek32.indexer(w)
    w.key("attention.indexer.kpool", w.config.integer("index_kpool", default=16, least=1))
    w.key("attention.indexer.kpool_select_tail", w.config.flag("index_kpool_always_select_tail", default=True))
    w.key("kda.gate_lower_bound", bound(w))
    w.key("hyper_connection.sinkhorn_iterations", w.config.integer("hc_sinkhorn_iters", default=20))
    usual.head(w)
    hy_v4.limit(w, "swiglu_clamp_exp", "swiglu_clamp_shexp")
    count, kv_heads = usual.routed(w), np.ones(usual.layers(w), np.int32)
    picks = np.zeros(len(kv_heads), bool)
    for layer in w.layers(len(kv_heads)):
        w.copy(usual.NORMS)
        for part in ("attn", "ffn"):
            hy_v4.streams(w, f"hc_{part}", f"hc_{part}")
        if w.has("self_attn.A_log"):
            kv_heads[layer] = 0
            kimi_linear.delta(w, kimi_linear.DELTA, usual.decay)
        else:
            deepseek2.latent(w)
        picks[layer] = w.has("self_attn.indexer.wk.weight")
        if picks[layer]:
            w.copy(deepseek32.INDEXER)
            for name, source in POOLS.items():
                w.put(f"indexer_compressor_{name}.weight", w.take(source))
        usual.sparse(w, count)
    w.key("attention.head_count_kv", kv_heads)
    w.key("attention.indexer.types", picks)


def bound(w: Writer) -> float:
    """Of what keys forget.  UnsupportedError where there is none."""
    part = w.config.part("linear_attn_config")
    if not part.flag("safe_gate", default=True):
        raise UnsupportedError(f"{part.where}: safe_gate is false; {w.arch} has a bound")
    return w.config.number("linear_lower_bound", default=part.number("gate_lower_bound", default=-5.0))
