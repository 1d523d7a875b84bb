"""T5's encoder, as in sentence-T5: RMS norms before the branches, scores that are not scaled but biased by distance, as
the first layer says for all, and an MLP of ReLU, or a gated one of GELU from version 1.1 on.

Source: https://arxiv.org/abs/1910.10683.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores

BIASED = Scores(biases="attn_rel_b", causal=False)


def forward(b: Builder) -> Value:
    c = b.config
    b.ignore("output")
    x = b.embed()
    for layer in b.blocks(range(c.layers), "enc.blk"):
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        x = b.add(x, b.linear(b.attend(q, k, v, layer, scale=1.0, scores=BIASED), "attn_o", c.dim))
        x = feed_forward(b, x)
    return b.norm(x, "enc.output_norm")


def feed_forward(b: Builder, x: Value) -> Value:
    h = b.norm(x, "ffn_norm")
    return b.add(x, b.gated_mlp(h, "gelu") if b.has("ffn_gate") else b.plain_mlp(h, "relu"))
