"""Ling 3: Kimi Linear's layers, whose latent attention has positions and a gate on each head, and whose keys forget no
more than a bound; experts in groups by a sigmoid with a bias for the choice, and limits to activations in some layers.

Source: llama.cpp's bailingmoe3.  The last layers predict further tokens and are left out.
"""

from edgeinfer.models import deepseek2, kimi_linear, step35
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    key_dim = b.keys.integer("attention.key_length_mla", c.key_dim)
    rope, scale = b.model_rope("halves" if b.keys.seeing() else "adjacent"), key_dim**-0.5
    limits = step35.limit(b, "swiglu_clamp_exp"), step35.limit(b, "swiglu_clamp_shexp")
    x = b.embed()
    for layer in b.layers(b.main_layers):
        h = b.norm(x, "attn_norm")
        if b.has("ssm_conv1d_q"):
            h = kimi_linear.delta_attention(b, h, decay(b, h), gate(b, h))
        else:
            q = b.rope(deepseek2.queries(b, deepseek2.query_vector(b, h), key_dim), rope, key_dim, key_dim - c.rope_dim)
            y = deepseek2.latent(b, h, q, rope, layer, scale)
            h = b.mul(y, b.activate(b.linear(h, "attn_gate", b.rows("attn_gate")), "sigmoid"))
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, feed_forward(b, b.norm(x, "ffn_norm"), limits[0][layer], limits[1][layer]))
    return b.logits(x)


def feed_forward(b: Builder, h: Value, limit: float, shared_limit: float) -> Value:
    if limit or shared_limit:
        return step35.feed_forward(b, h, limit, shared_limit)
    return b.moe(h, "silu", "sigmoid")


def decay(b: Builder, h: Value) -> Value:
    """Of each column of the keys: exp(bound * sigmoid(a * (f(h) + dt)))."""
    heads = b.config.heads
    rate = b.plus(b.linear(h, "ssm_f_a", heads * b.keys.integer("kda.head_dim")), "ssm_dt.bias")
    share = b.activate(b.times(rate, "ssm_a", heads), "sigmoid")
    return b.activate(b.scale(share, b.keys.number("kda.gate_lower_bound", least=-1e4)), "exp")


def gate(b: Builder, h: Value) -> Value:
    return b.linear(h, "ssm_g_a", b.config.heads * b.keys.integer("kda.head_dim"))
