"""MiMo V2: sliding windows with attention sinks and global layers, partial RoPE, experts by a sigmoid with a bias for
the choice.

Source: https://arxiv.org/abs/2601.02780.  The last layers predict further tokens and are left out.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores


def forward(b: Builder) -> Value:
    window, local = b.keys.integer("attention.sliding_window"), b.sliding()
    global_rope, local_rope = b.model_rope("halves"), b.local_rope(base=b.config.rope_base)
    share = b.keys.number("attention.value_scale", 1.0)
    x = b.embed()
    for layer in b.layers(b.main_layers):
        c, turn = b.config, local_rope if local[layer] else global_rope
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        scores = Scores(sinks="attn_sinks" if b.has("attn_sinks") else None)
        h = b.attend(b.rope(q, turn), b.rope(k, turn), v, layer, window if local[layer] else 0, scores=scores)
        x = b.add(x, b.scale(b.linear(h, "attn_output", c.dim), share))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu", "sigmoid", normalise=True))
    return b.logits(x)
