"""Refact: Llama's block with ALiBi in place of RoPE.  Source: https://huggingface.co/smallcloudai/Refact-1_6B-fim."""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import Scores

ALIBI = Scores(max_bias=8.0)


def forward(b: Builder) -> Value:
    c = b.config
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        x = b.add(x, b.linear(b.attend(q, k, v, layer, scores=ALIBI), "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)
