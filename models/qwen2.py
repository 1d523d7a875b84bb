"""Qwen2 and Qwen2.5: like Llama, with biases on Q, K and V and RoPE over the two halves of a head.

Source: https://arxiv.org/abs/2407.10671.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        q = b.rope(b.linear(h, "attn_q", c.heads * c.key_dim), rope)
        k = b.rope(b.linear(h, "attn_k", c.kv_heads * c.key_dim), rope)
        v = b.linear(h, "attn_v", c.kv_heads * c.value_dim)
        x = b.add(x, b.linear(b.attend(q, k, v, layer), "attn_output", c.dim))
        h = b.norm(x, "ffn_norm")
        h = b.gated(b.linear(h, "ffn_gate", c.ff_dim), b.linear(h, "ffn_up", c.ff_dim), "silu")
        x = b.add(x, b.linear(h, "ffn_down", c.dim))
    return b.logits(x)
