"""BitNet b1.58: ternary matrices, each with one scale, and norms inside both branches.

Source: https://arxiv.org/abs/2402.17764; that the activation is SiLU where a file says nothing is llama.cpp's.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    act = b.keys.choice("hidden_activation", "silu", ("silu", "relu2"))
    x = b.embed()
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        q = b.linear(h, "attn_q", c.heads * c.key_dim)
        k = b.linear(h, "attn_k", c.kv_heads * c.key_dim)
        v = b.linear(h, "attn_v", c.kv_heads * c.value_dim)
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(b.norm(h, "attn_sub_norm"), "attn_output", c.dim))
        h = b.norm(x, "ffn_norm")
        gate, up = b.linear(h, "ffn_gate", c.ff_dim), b.linear(h, "ffn_up", c.ff_dim)
        h = b.gated(gate, up, act) if act == "silu" else b.mul(b.activate(gate, act), up)
        x = b.add(x, b.linear(b.norm(h, "ffn_sub_norm"), "ffn_down", c.dim))
    return b.logits(x)
