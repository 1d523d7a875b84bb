"""PLaMo 1: attention and gated MLP side by side on one norm.  Source: https://huggingface.co/pfnet/plamo-13b."""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        q, k, v = b.qkv(h)
        attended = b.linear(b.attend(b.rope(q, rope), b.rope(k, rope), v, layer), "attn_output", c.dim)
        x = b.add(b.add(x, attended), b.gated_mlp(h, "silu"))
    return b.logits(x)
