"""PLM: latent attention and an MLP of squared ReLU.  Source: https://arxiv.org/abs/2503.12167."""

from edgeinfer.models import deepseek2
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        q = b.rope(deepseek2.queries(b, deepseek2.query_vector(b, h), c.key_dim), rope, start=c.key_dim - c.rope_dim)
        x = b.add(x, b.linear(deepseek2.expanded(b, h, q, rope, layer), "attn_output", c.dim))
        x = b.add(x, b.plain_mlp(b.norm(x, "ffn_norm"), "relu2"))
    return b.logits(x)
