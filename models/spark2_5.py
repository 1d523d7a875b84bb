"""Spark 2.5: a gate on each head of attention, sliding windows and global layers, a gated GELU feed-forward.

Source: llama.cpp's spark2_5.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    window, local = b.keys.integer("attention.sliding_window"), b.sliding()
    global_rope, local_rope = b.model_rope("halves"), b.model_rope("halves", local=True)
    x = b.embed()
    for layer in b.layers():
        turn, h = local_rope if local[layer] else global_rope, b.norm(x, "attn_norm")
        q, k, v = b.qkv(h)
        gate = b.activate(b.linear(h, "attn_gate", b.config.heads), "sigmoid")
        h = b.mul(b.attend(b.rope(q, turn), b.rope(k, turn), v, layer, window if local[layer] else 0), gate)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "gelu"))
    return b.logits(x)
