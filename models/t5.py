"""T5 (also Flan-T5, mT5, UMT5, MADLAD-400): t5encoder reads a text, and a decoder answers it, which attends to its own
tokens, biased by distance as there, and to the text.  Where the output matrix is the embedding, logits are scaled.

Source: https://arxiv.org/abs/1910.10683.
"""

from edgeinfer.config import MAX_LAYERS
from edgeinfer.models.t5encoder import feed_forward
from edgeinfer.models.t5encoder import forward as encode
from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores

BIASED = Scores(biases="attn_rel_b")


def forward(b: Builder) -> Value:
    c = b.config
    layers = range(b.keys.integer("decoder_block_count", c.layers, most=MAX_LAYERS))
    text = encode(b)
    for layer in b.blocks(layers, "dec.blk"):
        k = b.linear(text, "cross_attn_k", c.heads * c.key_dim)
        b.store(k, b.linear(text, "cross_attn_v", c.heads * c.value_dim), c.layers + layer)
    b.answer(text)
    x = b.embed()
    for layer in b.blocks(layers, "dec.blk"):
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        x = b.add(x, b.linear(b.attend(q, k, v, layer, scale=1.0, scores=BIASED), "attn_o", c.dim))
        q = b.linear(b.norm(x, "cross_attn_norm"), "cross_attn_q", c.heads * c.key_dim)
        seen = b.attend(q, None, None, c.layers + layer, scale=1.0, text=True)
        x = feed_forward(b, b.add(x, b.linear(seen, "cross_attn_o", c.dim)))
        b.ignore("cross_attn_rel_b")
    x = b.norm(b.outputs(x), "dec.output_norm")
    return b.unembed(x if b.has("output") else b.scale(x, c.dim**-0.5))
