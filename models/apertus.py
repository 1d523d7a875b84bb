"""Apertus: normed heads of Q and K, and an MLP of xIELU, the activation with parameters of its own in each layer.

Sources: https://arxiv.org/abs/2509.14233, https://arxiv.org/abs/2411.13010.
"""

import math

from edgeinfer.config import Keys
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    keys = Keys(b.keys.file, "xielu")  # these have no prefix of the architecture
    constants = [keys.numbers(name, c.layers) for name in ("alpha_p", "alpha_n", "beta", "eps")]
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        h = b.linear(b.norm(x, "ffn_norm"), "ffn_up", c.ff_dim)
        alpha_p, alpha_n, beta, eps = (values[layer] for values in constants)
        h = b.activate(h, "xielu", alpha_p=softplus(alpha_p), alpha_n=beta + softplus(alpha_n), beta=beta, eps=eps)
        x = b.add(x, b.linear(h, "ffn_down", c.dim))
    return b.logits(x)


def softplus(x: float) -> float:
    """The parameters are kept so that they may be any number, but are used as positive ones."""
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)
