"""Command R7B: Command-R's block; three sliding-window layers with RoPE to one global layer without positions.

Source: https://arxiv.org/abs/2504.00698.
"""

from edgeinfer.plan import Builder, Value

PERIOD = 4


def forward(b: Builder) -> Value:
    c = b.config
    window, local = b.keys.integer("attention.sliding_window"), b.sliding(PERIOD)
    rope = b.model_rope("adjacent", local=True)
    x = b.embed()
    for layer in b.layers():
        h = b.layer_norm(x, "attn_norm")
        q, k, v = b.qkv(h)
        if local[layer]:
            attended = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer, window)
        else:
            attended = b.attend(q, k, v, layer)
        x = b.add(b.add(x, b.linear(attended, "attn_output", c.dim)), b.gated_mlp(h, "silu"))
    logits = b.unembed(b.layer_norm(b.outputs(x), "output_norm"))
    return b.scale(logits, b.keys.number("logit_scale"))
