"""Llama 1 to 3, Mistral 7B, SmolLM2: pre-norm attention and a gated SiLU feed-forward.

Sources: https://arxiv.org/abs/2302.13971, https://arxiv.org/abs/2407.21783 (frequency factors).  GGUF stores the rows
of Q and K permuted so that RoPE turns adjacent pairs.
"""

from edgeinfer.errors import UnsupportedError
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    if b.keys.integer("expert_count", 0, least=0):
        raise UnsupportedError("llama.expert_count: a mixture of experts, which edgeinfer cannot run yet")
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers():
        q, k, v = projections(b, b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        h = b.norm(x, "ffn_norm")
        h = b.gated(b.linear(h, "ffn_gate", c.ff_dim), b.linear(h, "ffn_up", c.ff_dim), "silu")
        x = b.add(x, b.linear(h, "ffn_down", c.dim))
    return b.logits(x)


def projections(b: Builder, h: Value) -> tuple[Value, Value, Value]:
    """Q, K and V of `h`, from three matrices or from one that stacks them."""
    c = b.config
    q_width, k_width, v_width = c.heads * c.key_dim, c.kv_heads * c.key_dim, c.kv_heads * c.value_dim
    if b.has("attn_qkv"):
        qkv = b.linear(h, "attn_qkv", q_width + k_width + v_width)
        return (
            b.split(qkv, 0, q_width),
            b.split(qkv, q_width, k_width),
            b.split(qkv, q_width + k_width, v_width),
        )
    return b.linear(h, "attn_q", q_width), b.linear(h, "attn_k", k_width), b.linear(h, "attn_v", v_width)
