"""GPT-OSS: attention sinks, every second layer a sliding window, biased experts of clamped swish.

Source: https://arxiv.org/abs/2508.10925.  Experts are weighed by the softmax over those chosen.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores


def forward(b: Builder) -> Value:
    c = b.config
    window = b.keys.integer("attention.sliding_window")
    scores = Scores(sinks="attn_sinks")
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer, 0 if layer % 2 else window, scores=scores)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "post_attention_norm"), "oss", "chosen"))
    return b.logits(x)
