"""StableLM: layer norms with biases and partial RoPE; the 12B has normed heads of Q and K and a parallel block.

Source: https://arxiv.org/abs/2402.17834.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        normed = b.layer_norm(x, "attn_norm")
        q, k, v = b.qkv(normed)
        if b.has("attn_q_norm"):
            q, k = b.layer_norm(q, "attn_q_norm", c.key_dim), b.layer_norm(k, "attn_k_norm", c.key_dim)
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.layer_norm(x, "ffn_norm") if b.has("ffn_norm") else normed, "silu"))
    return b.unembed(b.layer_norm(b.outputs(x), "output_norm"))
