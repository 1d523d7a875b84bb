"""Mellum 2: Qwen3-MoE with sliding windows where the file has them.  Source: llama.cpp's mellum."""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    local, window = b.sliding(), b.keys.integer("attention.sliding_window", 0, least=0)
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer, window if local[layer] else 0)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu", normalise=True))
    return b.logits(x)
