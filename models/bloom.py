"""BLOOM: ALiBi in place of positions, layer norms with biases, one also over the embedding, and a plain GELU MLP.

Source: https://arxiv.org/abs/2211.05100.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores

ALIBI = Scores(max_bias=8.0)


def forward(b: Builder) -> Value:
    c = b.config
    x = b.layer_norm(b.embed(), "token_embd_norm")
    for layer in b.layers():
        q, k, v = b.qkv(b.layer_norm(x, "attn_norm"))
        x = b.add(x, b.linear(b.attend(q, k, v, layer, scores=ALIBI), "attn_output", c.dim))
        x = b.add(x, b.plain_mlp(b.layer_norm(x, "ffn_norm"), "gelu"))
    return b.unembed(b.layer_norm(b.outputs(x), "output_norm"))
