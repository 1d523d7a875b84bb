"""Nemotron-H and Nemotron 3 Nano: each layer is one of a Mamba 2 mixer, attention without positions, or an MLP of
squared ReLU, or experts of it.

Sources: https://arxiv.org/abs/2504.03624, https://arxiv.org/abs/2512.20848.
"""

from edgeinfer.models import mamba2
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    x = b.embed()
    for layer in b.layers():
        c, h = b.config, b.norm(x, "attn_norm")
        if c.kv_heads:
            h = b.linear(b.attend(*b.qkv(h), layer), "attn_output", c.dim)
        elif not c.ff_dim:
            h = mamba2.mixer(b, h)
        elif b.has("ffn_gate_inp"):
            h = experts(b, h)
        else:
            h = b.plain_mlp(h, "relu2")
        x = b.add(x, h)
    return b.logits(x)


def experts(b: Builder, h: Value) -> Value:
    """Experts and a shared expert, none of them gated."""
    shared = b.plain_mlp(h, "relu2", b.keys.integer("expert_shared_feed_forward_length"), "_shexp")
    return b.add(b.experts(h, "relu2", b.expert_width(), b.router("sigmoid")), shared)
