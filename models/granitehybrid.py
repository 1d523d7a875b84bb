"""Granite 4: Mamba 2 layers and a few of attention, without positions unless the file says so; Granite's scales.

Source: https://www.ibm.com/granite/docs/models/granite.
"""

from edgeinfer.models import mamba2
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    branch = b.keys.number("residual_scale", 1.0) or 1.0
    scale = b.keys.number("attention.scale", 0.0) or None
    turned = b.keys.flag("rope.scaling.finetuned", True)
    rope = b.model_rope("adjacent")
    x = b.embed(scale=b.keys.number("embedding_scale", 1.0) or 1.0)
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        if b.config.kv_heads:
            q, k, v = b.qkv(h)
            q, k = (b.rope(q, rope), b.rope(k, rope)) if turned else (q, k)
            h = b.linear(b.attend(q, k, v, layer, scale=scale), "attn_output", b.config.dim)
        else:
            h = mamba2.mixer(b, h)
        x = b.add(x, b.scale(h, branch))
        x = b.add(x, b.scale(b.moe(b.norm(x, "ffn_norm"), "silu", normalise=True), branch))
    return b.scale(b.logits(x), 1 / (b.keys.number("logit_scale", 1.0) or 1.0))
