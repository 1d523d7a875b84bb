"""Nanbeige 4.2: Llama's layers, passed several times, each time with keys and values of their own.

Source: llama.cpp's nanbeige.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    times, normed = b.keys.integer("num_loops", most=16), not b.keys.flag("skip_loop_final_norm", False)
    rope = b.model_rope("adjacent")
    x = b.embed()
    for time in range(times):
        for layer in b.layers():
            q, k, v = b.qkv(b.norm(x, "attn_norm"))
            h = b.attend(b.rope(q, rope), b.rope(k, rope), v, time * c.layers + layer)
            x = b.add(x, b.linear(h, "attn_output", c.dim))
            x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "silu"))
        x = b.norm(x, "output_norm") if normed and time + 1 < times else x
    return b.logits(x)
