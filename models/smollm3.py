"""SmolLM3: Llama's block, with no positions in every fourth layer.

Sources: https://huggingface.co/blog/smollm3, https://arxiv.org/abs/2501.18795 (layers without positions).
"""

from edgeinfer.plan import Builder, Value

PERIOD = 4


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        if (layer + 1) % PERIOD:
            q, k = b.rope(q, rope), b.rope(k, rope)
        x = b.add(x, b.linear(b.attend(q, k, v, layer), "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.norm(x, "ffn_norm"), "silu"))
    return b.logits(x)
