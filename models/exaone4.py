"""EXAONE 4: norms after each branch and none before, normed heads of Q and K; the 32B has three sliding-window layers
with RoPE to one global layer without positions.

Source: https://arxiv.org/abs/2507.11407.
"""

from edgeinfer.plan import Builder, Value

LAYERS_OF_32B = 64  # the one size with windows
PERIOD = 4


def forward(b: Builder) -> Value:
    c = b.config
    window = b.keys.integer("attention.sliding_window", 0, least=0)
    mixed = c.layers == LAYERS_OF_32B and window > 0
    local = b.sliding(PERIOD) if mixed else (False,) * c.layers
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(x)
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        if local[layer] or not mixed:
            q, k = b.rope(q, rope), b.rope(k, rope)
        h = b.attend(q, k, v, layer, window if local[layer] else 0)
        x = b.add(x, b.norm(b.linear(h, "attn_output", c.dim), "post_attention_norm"))
        x = b.add(x, b.norm(b.gated_mlp(x, "silu"), "post_ffw_norm"))
    return b.logits(x)
