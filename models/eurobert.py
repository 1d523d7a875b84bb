"""EuroBERT: Llama's layers, and every token sees all others.

Source: https://arxiv.org/abs/2503.05500.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.rope import Pairs
from edgeinfer.verbs.attention import BOTH_WAYS


def forward(b: Builder) -> Value:
    return encode(b, "halves", "output_norm")


def encode(b: Builder, pairs: Pairs, last: str) -> Value:
    """Also of its kin, which name the last norm otherwise or turn other pairs."""
    c = b.config
    rope = b.model_rope(pairs)
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer, scores=BOTH_WAYS)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "silu"))
    return b.norm(x, last)
