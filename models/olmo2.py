"""OLMo 2 and 3: norms after each branch and none before, norms of all of Q and of all of K; OLMo 3 has sliding windows.

Sources: https://arxiv.org/abs/2501.00656, https://arxiv.org/abs/2512.13961.  Local layers have the plain RoPE, global
ones the scaled one.
"""

from edgeinfer import rope
from edgeinfer.plan import Builder, Value

PERIOD = 4  # every fourth layer is global, unless the file says otherwise


def forward(b: Builder) -> Value:
    c = b.config
    window = b.keys.integer("attention.sliding_window", 0, least=0)
    local = b.sliding(PERIOD) if window else (False,) * c.layers
    global_rope, local_rope = b.model_rope("halves"), rope.plain(c.rope_dim, c.rope_base, "halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(x)
        q, k = b.norm(q, "attn_q_norm"), b.norm(k, "attn_k_norm")
        turn = local_rope if local[layer] else global_rope
        h = b.attend(b.rope(q, turn), b.rope(k, turn), v, layer, window if local[layer] else 0)
        x = b.add(x, b.norm(b.linear(h, "attn_output", c.dim), "post_attention_norm"))
        x = b.add(x, b.norm(b.gated_mlp(x, "silu"), "post_ffw_norm"))
    return b.logits(x)
