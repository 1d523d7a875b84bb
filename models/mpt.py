"""MPT: ALiBi, layer norms without biases, fused QKV that may be clamped, a plain GELU MLP.

Source: https://www.databricks.com/blog/mpt-7b.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores


def forward(b: Builder) -> Value:
    c = b.config
    scores = Scores(max_bias=b.keys.number("attention.max_alibi_bias", 0.0))
    limit = b.keys.number("attention.clamp_kqv", 0.0)
    x = b.add(b.embed(), b.positions("position_embd")) if b.has("position_embd") else b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.layer_norm(x, "attn_norm"))
        if limit:
            q, k, v = b.clamp(q, limit), b.clamp(k, limit), b.clamp(v, limit)
        if b.has("attn_q_norm"):
            q, k = b.layer_norm(q, "attn_q_norm"), b.layer_norm(k, "attn_k_norm")
        x = b.add(x, b.linear(b.attend(q, k, v, layer, scores=scores), "attn_output", c.dim))
        x = b.add(x, b.plain_mlp(b.layer_norm(x, "ffn_norm"), "gelu"))
    return b.unembed(b.layer_norm(b.outputs(x), "output_norm"))
