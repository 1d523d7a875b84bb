"""DBRX: layer norms without bias, fused QKV that is clamped, experts.

Source: https://www.databricks.com/blog/introducing-dbrx-new-state-art-open-llm.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    limit = b.keys.number("attention.clamp_kqv")
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = (b.clamp(y, limit) for y in b.qkv(b.layer_norm(x, "attn_norm")))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.layer_norm(x, "attn_output_norm"), "silu", normalise=True))
    return b.unembed(b.layer_norm(b.outputs(x), "output_norm"))
