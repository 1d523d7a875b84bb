"""Jais 1: ALiBi, layer norms and linear layers with biases, gated SiLU; scores are scaled by 1 / key_dim.

Source: https://arxiv.org/abs/2308.16149.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores


def forward(b: Builder) -> Value:
    c = b.config
    scores = Scores(max_bias=b.keys.number("attention.max_alibi_bias", 0.0))
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.layer_norm(x, "attn_norm"))
        h = b.attend(q, k, v, layer, scale=1 / c.key_dim, scores=scores)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.layer_norm(x, "ffn_norm"), "silu"))
    return b.unembed(b.layer_norm(b.outputs(x), "output_norm"))
