"""Kimi Linear: three layers of Kimi delta attention, gated delta networks in which each column forgets at its own rate,
to one of latent attention without positions; experts by a sigmoid with a bias for the choice.

Source: https://arxiv.org/abs/2510.26692.
"""

from edgeinfer.models import deepseek2
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    key_dim = b.keys.integer("attention.key_length_mla", c.key_dim)
    still = key_dim**-0.5
    x = b.embed()
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        if b.has("ssm_conv1d_q"):
            h = delta_attention(b, h, decay(b, h), low_rank(b, h, "g"))
        else:
            q = deepseek2.queries(b, deepseek2.query_vector(b, h), key_dim)
            h = (deepseek2.latent if b.has("attn_k_b") else deepseek2.expanded)(b, h, q, None, layer, still)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu", "sigmoid"))
    return b.logits(x)


def delta_attention(b: Builder, h: Value, decay: Value, gate: Value, eps: float | None = None) -> Value:
    """Q, K and V through short convolutions, the delta rule, a norm of each head and a sigmoid gate."""
    heads, size = b.config.heads, b.keys.integer("kda.head_dim")
    width, kernel, eps = heads * size, b.keys.integer("ssm.conv_kernel"), b.config.eps if eps is None else eps
    q, k, v = (
        b.activate(b.conv(b.linear(h, f"attn_{name}", width), f"ssm_conv1d_{name}", kernel), "silu") for name in "qkv"
    )
    q, k = (b.scale(b.norm(y, None, size, eps / size), size**-0.5) for y in (q, k))  # of length 1
    learnt = b.mul(k, b.activate(b.linear(h, "ssm_beta", heads), "sigmoid"))
    y = b.delta(b.scale(q, size**-0.5), learnt, v, decay, b.mul(k, decay), b.scale(learnt, -1.0), heads)
    return b.mul(b.norm(y, "ssm_norm", size), b.activate(gate, "sigmoid"))


def decay(b: Builder, h: Value) -> Value:
    """Of each column of the keys: exp(a * softplus(f(h) + dt))."""
    rate = b.activate(b.plus(low_rank(b, h, "f"), "ssm_dt.bias"), "softplus")
    return b.activate(b.times(rate, "ssm_a", b.config.heads), "exp")


def low_rank(b: Builder, h: Value, name: str) -> Value:
    size = b.keys.integer("kda.head_dim")
    return b.linear(b.linear(h, f"ssm_{name}_a", size), f"ssm_{name}_b", b.config.heads * size)
