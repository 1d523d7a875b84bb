"""Mellum 2: Qwen3-MoE with sliding windows where the file has them, in which RoPE is not scaled.

Source: llama.cpp's mellum.
"""

from edgeinfer import rope
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    local, window = b.sliding(), b.keys.integer("attention.sliding_window", 0, least=0)
    global_rope, local_rope = b.model_rope("halves"), rope.plain(c.rope_dim, c.rope_base, "halves")
    x = b.embed()
    for layer in b.layers():
        is_local = window > 0 and local[layer]
        turn = local_rope if is_local else global_rope
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        h = b.attend(b.rope(q, turn), b.rope(k, turn), v, layer, window if is_local else 0)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu", normalise=True))
    return b.logits(x)
