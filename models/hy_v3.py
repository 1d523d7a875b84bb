"""Hunyuan 3: normed heads of Q and K, experts by a sigmoid with a bias for the choice, and a shared expert.

Source: llama.cpp's hy_v3.  The last layers predict further tokens and are left out.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers(c.layers - b.keys.integer("nextn_predict_layers", 0, least=0)):
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu", "sigmoid"))
    return b.logits(x)
