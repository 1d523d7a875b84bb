"""MiniMax M2: norms of all of Q and of all of K, partial RoPE, experts by a sigmoid with a bias for the choice.

Source: https://huggingface.co/MiniMaxAI/MiniMax-M2.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.norm(q, "attn_q_norm"), b.norm(k, "attn_k_norm")
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu", "sigmoid", normalise=True))
    return b.logits(x)
