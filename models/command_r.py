"""Command-R: attention and gated MLP side by side on one layer norm without bias; the logits are scaled down.

Source: https://huggingface.co/CohereForAI/c4ai-command-r-v01; the plus variant norms the heads of Q and K.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers():
        h = b.layer_norm(x, "attn_norm")
        q, k, v = b.qkv(h)
        if b.has("attn_q_norm"):
            q, k = b.layer_norm(q, "attn_q_norm", c.key_dim), b.layer_norm(k, "attn_k_norm", c.key_dim)
        attended = b.linear(b.attend(b.rope(q, rope), b.rope(k, rope), v, layer), "attn_output", c.dim)
        x = b.add(b.add(x, attended), b.gated_mlp(h, "silu"))
    logits = b.unembed(b.layer_norm(b.outputs(x), "output_norm"))
    return b.scale(logits, b.keys.number("logit_scale", 1.0) or 1.0)
