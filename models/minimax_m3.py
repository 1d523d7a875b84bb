"""MiniMax M3: normed heads of Q and K, partial RoPE, in long contexts only blocks an indexer picks for each KV head;
GPT-OSS's clamped swish, experts by a sigmoid with a bias for the choice and a shared one after some dense layers.

Source: llama.cpp's minimax-m3.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.rope import Rope

INDEXER = ("q_proj", "k_proj", "q_norm", "k_norm")


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        q, k, v = b.qkv(h)
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        y = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer, seen=picked(b, h, rope, layer))
        x = b.add(x, b.linear(y, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "oss", "sigmoid"))
    return b.logits(x)


def picked(b: Builder, h: Value, rope: Rope, layer: int) -> Value | None:
    """The positions that each KV head sees, all if None: the blocks that hold those its one head of an indexer rates
    best, and the last ones."""
    count, block = b.keys.integer("attention.indexer.top_k"), b.keys.integer("attention.indexer.block_size")
    if not b.has("indexer.q_proj") or b.n_ctx <= count * block:
        b.ignore(*(f"indexer.{name}" for name in INDEXER))
        return None
    heads, size = b.keys.integer("attention.indexer.head_count"), b.keys.integer("attention.indexer.key_length")
    q = b.norm(b.linear(h, "indexer.q_proj", heads * size), "indexer.q_norm", size)
    k = b.norm(b.linear(h, "indexer.k_proj", size), "indexer.k_norm")
    scores = b.rate(b.rope(q, rope, size), b.rope(k, rope, size), None, layer)
    return b.choose(scores, count, block, b.keys.integer("attention.indexer.local_blocks", least=0))
