"""ERNIE 4.5 with experts: Llama's attention, experts with a bias for the choice.

Source: https://ernie.baidu.com/blog/publication/ERNIE_Technical_Report.pdf.
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
