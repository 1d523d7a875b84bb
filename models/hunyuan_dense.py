"""Hunyuan, dense: Qwen3's block with the norms of Q and K after RoPE.

Source: https://huggingface.co/tencent/Hunyuan-7B-Instruct.  Files may state the factor by which RoPE's longest wave
grows; in most its base has grown already.
"""

import dataclasses

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    alpha = b.keys.number("rope.scaling.alpha", 0.0)
    if alpha and c.rope_dim > 2:
        b.config = dataclasses.replace(c, rope_base=c.rope_base * alpha ** (c.rope_dim / (c.rope_dim - 2)))
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(b.rope(q, rope), "attn_q_norm"), b.head_norm(b.rope(k, rope), "attn_k_norm")
        x = b.add(x, b.linear(b.attend(q, k, v, layer), "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)
