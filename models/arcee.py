"""Arcee AFM: Llama's block with an MLP of squared ReLU.  Source: https://huggingface.co/arcee-ai/AFM-4.5B."""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.plain_mlp(b.norm(x, "ffn_norm"), "relu2"))
    return b.logits(x)
