"""Gemma 3, text: norms before and after each branch, norms of Q and K, five sliding-window layers to one global.

Sources: https://arxiv.org/abs/2503.19786, and llama.cpp's gemma3 for what GGUF leaves unsaid.  GGUF holds norm weights
as 1 + w.
"""

from edgeinfer.plan import Builder, Value

PERIOD = 6  # every sixth layer is global, unless the file says otherwise
LAYERS_OF_27B = 62  # the one size that scales scores by dim / heads and not by the width of a head


def forward(b: Builder) -> Value:
    c = b.config
    window = b.keys.integer("attention.sliding_window", 0, least=0)
    period = b.keys.integer("attention.sliding_window_pattern", PERIOD, least=0)
    global_rope, local_rope = b.model_rope("halves"), b.local_rope()
    scale = ((c.dim / c.heads) if c.layers == LAYERS_OF_27B else c.key_dim) ** -0.5
    x = b.embed(scale=c.dim**0.5)
    for layer in b.layers():
        is_local = window > 0 and (period == 0 or (layer + 1) % period != 0)
        turn = local_rope if is_local else global_rope
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        h = b.attend(b.rope(q, turn), b.rope(k, turn), v, layer, window if is_local else 0, scale)
        x = b.add(x, b.norm(b.linear(h, "attn_output", c.dim), "post_attention_norm"))
        x = b.add(x, b.norm(b.gated_mlp(b.norm(x, "ffn_norm"), "gelu"), "post_ffw_norm"))
    return b.softcap(b.logits(x), b.keys.number("final_logit_softcapping", 0.0))
