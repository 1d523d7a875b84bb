"""Baichuan: Llama's block; the 7B has RoPE, the 13B ALiBi.

Source: https://arxiv.org/abs/2309.10305.  Files do not say which: llama.cpp goes by the number of layers.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import PLAIN, Scores

LAYERS_OF_7B, LAYERS_OF_13B = 32, 40


def forward(b: Builder) -> Value:
    c = b.config
    scores = Scores(max_bias=8.0) if c.layers == LAYERS_OF_13B else PLAIN
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        if c.layers == LAYERS_OF_7B:
            q, k = b.rope(q, rope), b.rope(k, rope)
        x = b.add(x, b.linear(b.attend(q, k, v, layer, scores=scores), "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)
