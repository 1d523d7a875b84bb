"""Chameleon, its text part: Llama's block with a layer norm of each head of Q and K; in the 34B the norms come after
the branches.  Tokens of pictures are in the vocabulary, but cannot be drawn: their logits are the least there are.

Source: https://arxiv.org/abs/2405.09818.  In llama.cpp the 34B's MLP reads what attention gave without what went in.
"""

import numpy as np

from edgeinfer.plan import Builder, Value

PICTURES = slice(4, 8196)  # ids of the tokens that pictures are made of
LEAST = float(np.finfo(np.float32).min)
QK_EPS = 1e-5  # of the layer norms


def forward(b: Builder) -> Value:
    c = b.config
    rope, after = b.model_rope("adjacent"), b.keys.flag("swin_norm", False)
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(x if after else b.norm(x, "attn_norm"))
        q, k = (b.layer_norm(y, f"attn_{name}_norm", c.key_dim, QK_EPS) for y, name in ((q, "q"), (k, "k")))
        h = b.linear(b.attend(b.rope(q, rope), b.rope(k, rope), v, layer), "attn_output", c.dim)
        x = b.add(x, b.norm(h, "attn_norm") if after else h)
        h = b.gated_mlp(x if after else b.norm(x, "ffn_norm"), "silu")
        x = b.add(x, b.norm(h, "ffn_norm") if after else h)
    return without_pictures(b, b.logits(x))


def without_pictures(b: Builder, logits: Value) -> Value:
    first, end = PICTURES.start, PICTURES.stop
    least = b.fill(logits, (LEAST,) * (end - first))
    return b.join(b.split(logits, 0, first), least, b.split(logits, end, logits.width - end))
