"""PLaMo 3: norms before and after each branch, normed heads of Q and K, seven sliding-window layers to one global.

Source: llama.cpp's plamo3.
"""

from edgeinfer.plan import Builder, Value

PERIOD = 8


def forward(b: Builder) -> Value:
    c = b.config
    window = b.keys.integer("attention.sliding_window", 0, least=0)
    local = b.sliding(PERIOD) if window else (False,) * c.layers
    global_rope, local_rope = b.model_rope("halves"), b.model_rope("halves", local=True)
    x = b.embed()
    for layer in b.layers():
        turn = local_rope if local[layer] else global_rope
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        h = b.attend(b.rope(q, turn), b.rope(k, turn), v, layer, window if local[layer] else 0)
        h = b.linear(h, "attn_output", c.dim)
        x = b.add(x, b.times(b.norm(h), "post_attention_norm"))
        h = b.gated_mlp(b.norm(x, "ffn_norm"), "silu")
        x = b.add(x, b.times(b.norm(h), "post_ffw_norm"))
    return b.logits(x)
