"""Nomic Embed v1 and v1.5: BERT with rotary positions and a gated SiLU feed-forward, without biases.

Source: https://arxiv.org/abs/2402.01613.
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
        x = b.layer_norm(b.add(x, b.gated_mlp(x, "silu")), "layer_output_norm")
    return x
