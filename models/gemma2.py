"""Gemma 2: norms before and after each branch, every second layer a sliding window, scores and logits soft-capped.

Source: https://arxiv.org/abs/2408.00118.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores

PERIOD = 2  # every second layer is global, unless the file says otherwise
LAYERS_OF_27B = 46  # the one size that scales scores by dim / heads and not by the width of a head
WINDOW = 4096
SCORE_CAP, LOGIT_CAP = 50.0, 30.0


def forward(b: Builder) -> Value:
    c = b.config
    window, local = b.keys.integer("attention.sliding_window", WINDOW), b.sliding(PERIOD)
    scores = Scores(cap=b.keys.number("attn_logit_softcapping", SCORE_CAP))
    scale = ((c.dim / c.heads) if c.layers == LAYERS_OF_27B else c.key_dim) ** -0.5
    global_rope, local_rope = b.model_rope("halves"), b.model_rope("halves", local=True)
    x = b.embed(scale=c.dim**0.5)
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        turn = local_rope if local[layer] else global_rope
        h = b.attend(b.rope(q, turn), b.rope(k, turn), v, layer, window if local[layer] else 0, scale, scores)
        x = b.add(x, b.norm(b.linear(h, "attn_output", c.dim), "post_attention_norm"))
        x = b.add(x, b.norm(b.gated_mlp(b.norm(x, "ffn_norm"), "gelu"), "post_ffw_norm"))
    return b.softcap(b.logits(x), b.keys.number("final_logit_softcapping", LOGIT_CAP))
