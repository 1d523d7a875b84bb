"""Maincoder: Llama's block with an RMS norm of each head of Q and K.

Source: https://huggingface.co/Maincode/Maincoder-1B.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(b.rope(q, rope), "attn_q_norm"), b.head_norm(b.rope(k, rope), "attn_k_norm")
        x = b.add(x, b.linear(b.attend(q, k, v, layer), "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)
