"""Hunyuan 4, and the text part of the one that sees: DeepSeek V3.2's names, those of the residual streams, and its own
for gates and sinks.

RoPE turns adjacent pairs, as in GGUF and in transformers' class that sees; the class that does not turns halves of the
same weights.
"""

import numpy as np

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import deepseek2, deepseek32

ARCH = "hy_v4"
CLASSES = ("HYV4ForCausalLM", "HYV4VLForConditionalGeneration")
STREAMS = ("fn", "base", "scale")


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    if rope.parameters(w.config).number("mscale_all_dim", default=0.0):
        raise UnsupportedError(f"{w.config.where}: mscale_all_dim, by which scores grow, is what {w.arch} has not")
    deepseek2.numbers(w)
    deepseek32.indexer(w)
    usual.head(w)
    streams(w, "output_hc", "model.hc_head.hc_head")
    w.key("hyper_connection.magnitude", w.config.number("hc_magnitude", default=2.0))
    count, layers = usual.routed(w), usual.layers(w)
    limit(w, "swiglu_clamp_exp")
    picks = np.zeros(layers, bool)
    for layer in w.layers(layers):
        w.copy({**usual.NORMS, **deepseek32.INDEXER, "attn_gate": "self_attn.linear_gate"})
        w.put("attn_sinks.weight", w.take("self_attn.learnable_sink_param"))
        streams(w, "hc_attn", "hc_attn_layer.hc_pre.hc")
        streams(w, "hc_ffn", "hc_mlp_layer.hc_pre.hc")
        deepseek2.latent(w)
        usual.sparse(w, count)
        picks[layer] = w.has("self_attn.indexer.wk.weight")
    w.key("attention.indexer.types", picks)


def streams(w: Writer, name: str, source: str) -> None:
    """What streams are weighed by; how many there are, and the least weight."""
    for part in STREAMS:
        w.put(f"{name}_{part}.weight", w.take(f"{source}_{part}"))
    w.key("hyper_connection.count", w.config.integer("hc_mult", default=4))
    w.key("hyper_connection.epsilon", w.config.number("hc_eps", default=1e-6))


def limit(w: Writer, *names: str) -> None:
    """Of activations, the same in all layers; none where it is not above zero."""
    most = w.config.number("swiglu_limit", default=10.0)
    for name in names if most > 0 else ():
        w.key(name, np.full(usual.layers(w), most, np.float32))
