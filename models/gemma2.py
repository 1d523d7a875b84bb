"""Gemma 2: norms before and after each branch, every second layer a sliding window, scores and logits soft-capped.

Source: https://arxiv.org/abs/2408.00118.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores

LAYERS_OF_27B = 46  # the one size that scales scores by dim / heads and not by the width of a head
WINDOW = 4096
SCORE_CAP, LOGIT_CAP = 50.0, 30.0


def forward(b: Builder) -> Value:
    c = b.config
    window = b.keys.integer("attention.sliding_window", WINDOW)
    scores = Scores(cap=b.keys.number("attn_logit_softcapping", SCORE_CAP))
    scale = ((c.dim / c.heads) if c.layers == LAYERS_OF_27B else c.key_dim) ** -0.5
    rope = b.model_rope("halves")
    x = b.embed(scale=c.dim**0.5)
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer, 0 if layer % 2 else window, scale, scores)
        x = b.add(x, b.norm(b.linear(h, "attn_output", c.dim), "post_attention_norm"))
        x = b.add(x, b.norm(b.gated_mlp(b.norm(x, "ffn_norm"), "gelu"), "post_ffw_norm"))
    return b.softcap(b.logits(x), b.keys.number("final_logit_softcapping", LOGIT_CAP))
