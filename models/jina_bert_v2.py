"""Jina Embeddings v2 and Jina Reranker v1: BERT with ALiBi to both sides in place of positions, and a gated GELU MLP.

Source: https://arxiv.org/abs/2310.19923; the code model also has norms of Q and K and one more norm after attention.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores

ALIBI = Scores(max_bias=8.0, causal=False)


def forward(b: Builder) -> Value:
    c = b.config
    x = b.typed_embedding()
    for layer in b.layers():
        q, k, v = b.qkv(x)
        if b.has("attn_q_norm"):
            q, k = b.layer_norm(q, "attn_q_norm"), b.layer_norm(k, "attn_k_norm")
        h = b.linear(b.attend(q, k, v, layer, scores=ALIBI), "attn_output", c.dim)
        h = b.layer_norm(b.add(x, h), "attn_output_norm")
        x = b.layer_norm(b.add(x, h), "attn_norm_2") if b.has("attn_norm_2") else h
        x = b.layer_norm(b.add(x, b.gated_mlp(x, "gelu_erf")), "layer_output_norm")
    return x


def rank(b: Builder, rows: Value) -> Value:
    """The classifier is all that files have; as in llama.cpp its score is bent by tanh."""
    return b.activate(b.linear(b.pool(rows, "cls"), "cls", 1), "tanh")
