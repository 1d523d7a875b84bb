"""Nemotron and Minitron: layer norms with biases, partial RoPE, an MLP of squared ReLU.

Source: https://arxiv.org/abs/2402.16819.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.layer_norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.plain_mlp(b.layer_norm(x, "ffn_norm"), "relu2"))
    return b.unembed(b.layer_norm(b.outputs(x), "output_norm"))
