"""DeepSeek V3.2: DeepSeek V3's layers, in which an indexer, small heads of its own, picks the positions that a token
attends to, 2048 of them.

Source: https://arxiv.org/abs/2512.02556.
"""

import dataclasses

from edgeinfer.models import deepseek2
from edgeinfer.plan import Builder, Value
from edgeinfer.rope import Pairs, Rope

INDEXER = ("k_norm", "proj", "attn_k", "attn_q_b")


def forward(b: Builder) -> Value:
    return layers(b, "halves")


def layers(b: Builder, pairs: Pairs) -> Value:
    """`pairs`: of the indexer's heads."""
    c = b.config
    key_dim, rope, scale = deepseek2.rotation(b)
    turn, seen = dataclasses.replace(rope, pairs=pairs), None
    x = b.embed()
    for layer in b.layers(b.main_layers):
        h = b.norm(x, "attn_norm")
        vector = deepseek2.query_vector(b, h)
        seen = picked(b, h, vector, turn, layer, seen)
        q = b.rope(deepseek2.queries(b, vector, key_dim), rope, key_dim, key_dim - c.rope_dim)
        h = deepseek2.latent(b, h, q, rope, layer, scale, seen=seen)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)


def picked(
    b: Builder, h: Value, vector: Value, turn: Rope, layer: int, before: Value | None, start: int = 0, eps: float = 1e-6
) -> Value | None:
    """The positions that a layer's tokens see, all if None; `before`, where the layer has no indexer, those of the last
    one that has.  `vector` is what Q is made from; the heads turn from column `start` on."""
    count = b.keys.integer("attention.indexer.top_k")
    if not b.has("indexer.proj"):
        return before
    if b.n_ctx <= count:
        b.ignore(*(f"indexer.{name}" for name in INDEXER))
        return None
    q, k, w = indexer_heads(b, h, vector, eps)
    q, k = (b.rope(y, turn, k.width, start) for y in (q, k))
    return b.choose(b.rate(q, k, w, layer), count)


def indexer_heads(b: Builder, h: Value, vector: Value, eps: float) -> tuple[Value, Value, Value]:
    """Q of the indexer's heads, K, which they share, and their weights; nothing has turned yet."""
    heads, size = b.keys.integer("attention.indexer.head_count"), b.keys.integer("attention.indexer.key_length")
    k = b.layer_norm(b.linear(h, "indexer.attn_k", size), "indexer.k_norm", eps=eps)
    return b.linear(vector, "indexer.attn_q_b", heads * size), k, b.linear(h, "indexer.proj", heads)
