"""Phi-3.5-MoE: linear layers and RMS norms with biases, LongRoPE, experts.

Source: https://arxiv.org/abs/2404.14219; that the norms are RMS norms is llama.cpp's.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(normed(b, x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(normed(b, x, "ffn_norm"), "silu", normalise=True))
    return b.unembed(normed(b, b.outputs(x), "output_norm"))


def normed(b: Builder, x: Value, name: str) -> Value:
    return b.plus(b.norm(x, name), f"{name}.bias")
