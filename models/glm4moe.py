"""GLM 4.5 and 4.6: partial RoPE, heads of Q and K normed in the large one, experts by a sigmoid.

Source: https://arxiv.org/abs/2508.06471.  The last layers predict further tokens and are left out.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers(b.main_layers):
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        if b.has("attn_q_norm"):
            q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "post_attention_norm"), "silu", "sigmoid"))
    return b.logits(x)
