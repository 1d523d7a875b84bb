"""GPT-OSS: attention sinks, every second layer a sliding window, biased experts of clamped swish.

Source: https://arxiv.org/abs/2508.10925.  Experts are weighed by the softmax over those chosen.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores

PERIOD = 2  # every second layer is global, unless the file says otherwise


def forward(b: Builder) -> Value:
    c = b.config
    window, local = b.keys.integer("attention.sliding_window"), b.sliding(PERIOD)
    scores = Scores(sinks="attn_sinks")
    global_rope, local_rope = b.model_rope("halves"), b.model_rope("halves", local=True)
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        turn = local_rope if local[layer] else global_rope
        h = b.attend(b.rope(q, turn), b.rope(k, turn), v, layer, window if local[layer] else 0, scores=scores)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "post_attention_norm"), "oss", "chosen"))
    return b.logits(x)
