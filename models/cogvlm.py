"""CogVLM and CogVLM 2, their text part: Llama's layers over fused QKV, with RoPE over the two halves of a head.  The
second set of matrices is for pictures.

Source: https://arxiv.org/abs/2311.03079.
"""

from edgeinfer.plan import Builder, Value

PICTURES = ("vis_attn_qkv", "vis_attn_output", "vis_gate", "vis_up", "vis_down")


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        b.ignore(*PICTURES)
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)
