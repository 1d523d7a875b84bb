"""Grok 1 and 2: norms before and after each branch, GELU experts, soft-capped scores, scaled embedding and logits.

Sources: https://github.com/xai-org/grok-1; the defaults are those of files from before these numbers had keys.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores

EMBEDDING, LOGITS, SCORES, CAP = 78.38367176906169, 0.5773502691896257, 0.08838834764831845, 30.0


def forward(b: Builder) -> Value:
    c = b.config
    scale = b.keys.number("attention.output_scale", SCORES)
    scores = Scores(cap=b.keys.number("attn_logit_softcapping", CAP))
    rope = b.model_rope("halves")
    x = b.embed(scale=b.keys.number("embedding_scale", EMBEDDING))
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer, scale=scale, scores=scores)
        x = b.add(x, b.norm(b.linear(h, "attn_output", c.dim), "attn_output_norm"))
        h = b.norm(x, "ffn_norm")
        y = b.experts(h, "gelu", b.expert_width(), b.router(normalise=True))
        if b.has("ffn_up"):
            y = b.scale(b.add(y, b.gated_mlp(h, "gelu")), 0.5**0.5)
        x = b.add(x, b.norm(y, "layer_output_norm" if b.has("layer_output_norm") else "post_ffw_norm"))
    logits = b.scale(b.logits(x), b.keys.number("logit_scale", LOGITS))
    return b.softcap(logits, b.keys.number("final_logit_softcapping", 0.0))
