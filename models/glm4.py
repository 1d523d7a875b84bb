"""GLM-4 0414: norms before and after each branch, partial RoPE, fused gate and up.

Source: https://arxiv.org/abs/2406.12793.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.norm(b.linear(h, "attn_output", c.dim), "post_attention_norm"))
        x = b.add(x, b.norm(b.gated_mlp(b.norm(x, "ffn_norm"), "silu"), "post_ffw_norm"))
    return b.logits(x)
