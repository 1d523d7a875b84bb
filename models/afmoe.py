"""AFMoE (Trinity): gated attention, three sliding-window layers with RoPE to one global layer without positions, norms
before and after each branch, experts by a sigmoid.

Source: https://huggingface.co/arcee-ai/Trinity-Mini.
"""

from edgeinfer.plan import Builder, Value

PERIOD = 4


def forward(b: Builder) -> Value:
    c = b.config
    window, local = b.keys.integer("attention.sliding_window"), b.sliding(PERIOD)
    global_rope, local_rope = b.model_rope("halves"), b.model_rope("halves", local=True)
    x = b.embed(scale=c.dim**0.5)
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        gate = b.activate(b.linear(h, "attn_gate", c.heads * c.value_dim), "sigmoid")
        q, k, v = b.qkv(h)
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        if (layer + 1) % PERIOD:
            turn = local_rope if local[layer] else global_rope
            q, k = b.rope(q, turn), b.rope(k, turn)
        h = b.mul(b.attend(q, k, v, layer, window if local[layer] else 0), gate)
        x = b.add(x, b.norm(b.linear(h, "attn_output", c.dim), "post_attention_norm"))
        x = b.add(x, b.norm(b.moe(b.norm(x, "ffn_norm"), "silu", "sigmoid"), "post_ffw_norm"))
    return b.logits(x)
