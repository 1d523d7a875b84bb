"""Qwen3: Qwen2 without biases, and with an RMS norm of each head of Q and K before RoPE.

Source: https://arxiv.org/abs/2505.09388.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        q = b.rope(b.head_norm(b.linear(h, "attn_q", c.heads * c.key_dim), "attn_q_norm"), rope)
        k = b.rope(b.head_norm(b.linear(h, "attn_k", c.kv_heads * c.key_dim), "attn_k_norm"), rope)
        v = b.linear(h, "attn_v", c.kv_heads * c.value_dim)
        x = b.add(x, b.linear(b.attend(q, k, v, layer), "attn_output", c.dim))
        h = b.norm(x, "ffn_norm")
        h = b.gated(b.linear(h, "ffn_gate", c.ff_dim), b.linear(h, "ffn_up", c.ff_dim), "silu")
        x = b.add(x, b.linear(h, "ffn_down", c.dim))
    return b.logits(x)
