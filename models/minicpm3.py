"""MiniCPM 3: MiniCPM's scales around latent attention.  Source: https://huggingface.co/openbmb/MiniCPM3-4B."""

from edgeinfer.models import deepseek2
from edgeinfer.plan import Builder, Value

EMBEDDING, DEPTH, BASE_DIM = 12.0, 1.4, 256


def forward(b: Builder) -> Value:
    c = b.config
    branch = DEPTH / c.layers**0.5
    rope = b.model_rope("halves")
    x = b.embed(scale=EMBEDDING)
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        q = b.rope(deepseek2.queries(b, deepseek2.query_vector(b, h), c.key_dim), rope, start=c.key_dim - c.rope_dim)
        h = b.linear(deepseek2.expanded(b, h, q, rope, layer), "attn_output", c.dim)
        x = b.add(x, b.scale(h, branch))
        x = b.add(x, b.scale(b.gated_mlp(b.norm(x, "ffn_norm"), "silu"), branch))
    return b.scale(b.logits(x), BASE_DIM / c.dim)
