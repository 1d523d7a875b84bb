"""Muse Glimmer: a normed embedding, gated attention with normed heads of Q and K, norms before and after each branch;
sliding windows with RoPE and global layers without positions; the logits are scaled and soft-capped.

Source: llama.cpp's muse-glimmer.
"""

from edgeinfer.plan import Builder, Value

POST_EPS = 1e-8  # of the norms after the branches
LOGIT_CAP = 30.0


def forward(b: Builder) -> Value:
    c = b.config
    window, local = b.keys.integer("attention.sliding_window"), b.sliding()
    rope = b.local_rope(base=c.rope_base, pairs="adjacent")
    x = b.norm(b.embed())
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        q, k, v = b.qkv(h)
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        if local[layer]:
            q, k = b.rope(q, rope), b.rope(k, rope)
        gate = b.activate(b.linear(h, "attn_gate", c.heads * c.value_dim), "sigmoid")
        h = b.mul(b.attend(q, k, v, layer, window if local[layer] else 0), gate)
        x = b.add(x, b.norm(b.linear(h, "attn_output", c.dim), "post_attention_norm", eps=POST_EPS))
        x = b.add(x, b.norm(b.gated_mlp(b.norm(x, "ffn_norm"), "silu"), "post_ffw_norm", eps=POST_EPS))
    logits = b.scale(b.logits(x), b.keys.number("logit_scale"))
    return b.softcap(logits, b.keys.number("final_logit_softcapping", LOGIT_CAP))
