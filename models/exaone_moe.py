"""K-EXAONE: normed heads of Q and K, three sliding-window layers with RoPE to one global layer without positions,
experts by a sigmoid with a bias for the choice.

Source: https://arxiv.org/abs/2601.01739.  The last layers predict further tokens and are left out.
"""

from edgeinfer.plan import Builder, Value

PERIOD = 4


def forward(b: Builder) -> Value:
    c = b.config
    window, local = b.keys.integer("attention.sliding_window"), b.sliding(PERIOD)
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers(b.main_layers):
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        if local[layer]:
            q, k = b.rope(q, rope), b.rope(k, rope)
        h = b.attend(q, k, v, layer, window if local[layer] else 0)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu", "sigmoid"))
    return b.logits(x)
