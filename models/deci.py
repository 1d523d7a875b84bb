"""DeciLM and Llama Nemotron Super: Llama pruned by search: layers differ in heads and widths, some have no attention
or only a linear layer in its place, some have no feed-forward.

Sources: https://arxiv.org/abs/2411.19146, https://arxiv.org/abs/2505.00949.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers():
        c = b.config
        if c.kv_heads:
            q, k, v = b.qkv(b.norm(x, "attn_norm"))
            h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
            x = b.add(x, b.linear(h, "attn_output", c.dim))
        elif c.heads:
            x = b.add(x, b.linear(b.norm(x, "attn_norm"), "attn_output", c.dim))
        if c.ff_dim:
            x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)
