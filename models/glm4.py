"""GLM-4 0414, the text part of GLM-4.1V and GLM-OCR: norms before and after each branch, partial RoPE, over the two
halves of a head in those that see, fused gate and up.

Source: https://arxiv.org/abs/2406.12793.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves" if b.keys.seeing() else "adjacent")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.norm(b.linear(h, "attn_output", c.dim), "post_attention_norm"))
        x = b.add(x, b.norm(b.gated_mlp(b.norm(x, "ffn_norm"), "silu"), "post_ffw_norm"))
    return b.logits(x)
