"""Nomic Embed v2: BERT with rotary positions, every second feed-forward one of experts.

Source: https://arxiv.org/abs/2502.07972.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import BOTH_WAYS


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.typed_embedding()
    for layer in b.layers():
        q, k, v = b.qkv(x)
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer, scores=BOTH_WAYS)
        x = b.layer_norm(b.add(x, b.linear(h, "attn_output", c.dim)), "attn_output_norm")
        if b.has("ffn_gate_inp"):
            h = b.experts(x, "gelu_erf", b.expert_width(), b.router())
        else:
            h = b.plain_mlp(x, "gelu_erf")
        x = b.layer_norm(b.add(x, h), "layer_output_norm")
    return x
