"""Qwen3: Qwen2 without biases, and with an RMS norm of each head of Q and K before RoPE; embeddings and reranker too.

Sources: https://arxiv.org/abs/2505.09388, https://arxiv.org/abs/2506.05176.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)


def rank(b: Builder, rows: Value) -> Value:
    """The probability that the next token is "yes" and not "no"; cls.output has their rows of the output matrix."""
    both = b.linear(b.pool(rows, "last"), "cls.output", 2)
    return b.activate(b.add(b.split(both, 0, 1), b.scale(b.split(both, 1, 1), -1.0)), "sigmoid")
