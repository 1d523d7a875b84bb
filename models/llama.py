"""Llama 1 to 3, Mistral 7B, Mixtral, SmolLM2: pre-norm attention and a gated SiLU feed-forward, or experts of it.

Sources: https://arxiv.org/abs/2302.13971, https://arxiv.org/abs/2407.21783 (frequency factors),
https://arxiv.org/abs/2401.04088 (experts).  GGUF stores the rows of Q and K permuted so that RoPE turns adjacent pairs.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu", normalise=True))
    return b.logits(x)
