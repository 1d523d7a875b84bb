"""Laguna: a softplus gate on what attention gives, experts by a sigmoid with a bias for the choice, and a shared
expert; where there are windows, one layer without them to three with, in which RoPE is not scaled.

Source: llama.cpp's laguna.
"""

import dataclasses

from edgeinfer.plan import Builder, Value

PERIOD = 4  # the first layer of each four is global


def forward(b: Builder) -> Value:
    c = b.config
    window = b.keys.integer("attention.sliding_window", 0, least=0)
    local = b.sliding(PERIOD, first=True) if window else (False,) * c.layers
    global_rope = b.model_rope("halves")
    local_rope = dataclasses.replace(b.local_rope(base=c.rope_base), scale=1.0)
    x = b.embed()
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        q, k, v = b.qkv(h)
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        turn = local_rope if local[layer] else global_rope
        gate = b.activate(b.linear(h, "attn_gate", b.rows("attn_gate")), "softplus")  # one for each head or column
        h = b.mul(b.attend(b.rope(q, turn), b.rope(k, turn), v, layer, window if local[layer] else 0), gate)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu", "sigmoid"))
    return b.logits(x)
