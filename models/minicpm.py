"""MiniCPM 1 and 2: Llama's block with scaled embedding, branches and logits.

Source: https://arxiv.org/abs/2404.06395; files from before the scales had keys have those of the 2B.
"""

from edgeinfer.plan import Builder, Value

EMBEDDING, DEPTH, BASE_DIM = 12.0, 1.4, 256
SMALLEST = 1e-6


def forward(b: Builder) -> Value:
    c = b.config
    branch = b.keys.number("residual_scale", DEPTH / c.layers**0.5)
    rope = b.model_rope("adjacent")
    x = b.embed(scale=b.keys.number("embedding_scale", EMBEDDING))
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.scale(b.linear(h, "attn_output", c.dim), branch))
        x = b.add(x, b.scale(b.gated_mlp(b.norm(x, "ffn_norm"), "silu"), branch))
    return b.scale(b.logits(x), 1 / b.keys.number("logit_scale", c.dim / BASE_DIM, least=SMALLEST))
